/* A libnvidia-ml with two GPUs, for the program that asks how GPUs are. The structures are laid out as nvml.h says.
   FAKE_LOST: the second gives no handle. FAKE_DENIED, FAKE_DENIED_ALL: it is kept from us, or both are. FAKE_HANG: its
   VBIOS is never told. FAKE_OLD: calls of newer drivers refuse. FAKE_CROWD: more processes than there is room for. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char busId[32]; } Pci;
typedef struct { u32 version; u64 total, reserved, free, used; } Memory;
typedef struct { u64 total, free, used; } Bar1;
typedef struct { u32 pid; u64 used; u32 gpuInstance, computeInstance; } Process;
typedef struct { u32 version; u64 aParity, aSecDed, aCor, vParity, vSecDed, vCor, l2, sm, pcie, mcu, other; u32 over; } Sram;
typedef struct { u32 id, scope; long long at, latency; int kind, refused; union { u32 u; u64 ull; double d; } value; } Field;
typedef struct { u32 version; unsigned char cluster[16]; int status; u32 clique; unsigned char state; u32 health; } Fabric;
typedef struct { unsigned char cluster[16]; int status; u32 clique; unsigned char state; } FabricOld;

static int gpu(void *device) { return (int)(size_t)device - 1; }
static int old(void) { return getenv("FAKE_OLD") != NULL; }

int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : code == 23 ? "Insufficient Resources" : "other"; }
int nvmlDeviceGetCount_v2(u32 *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(u32 index, void **device) {
  *device = (void *)(size_t)(index + 1);
  if (getenv("FAKE_DENIED_ALL") || (index == 1 && getenv("FAKE_DENIED"))) return 4;
  return index == 1 && getenv("FAKE_LOST") ? 15 : 0;
}
int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci) {
  strcpy(pci->busId, gpu(device) ? "00000000:3D:00.0" : "00000000:1B:00.0");
  return 0;
}
int nvmlDeviceGetUUID(void *device, char *text, u32 size) { return size < 80 ? 7 : (strcpy(text, "GPU-00"), 0); }
int nvmlDeviceGetVbiosVersion(void *device, char *text, u32 size) {
  if (gpu(device) && getenv("FAKE_HANG")) sleep(60);
  return size < 32 ? 7 : (strcpy(text, "96.00.74.00.01"), 0);
}
int nvmlDeviceGetGspFirmwareVersion(void *device, char *text) { strcpy(text, "550.54.15"); return 0; }
int nvmlDeviceGetComputeMode(void *device, u32 *mode) { *mode = gpu(device) ? 3 : 0; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, u64 *reasons) { *reasons = 0x100000004ull; return 0; }
int nvmlDeviceGetClockInfo(void *device, u32 kind, u32 *clock) { *clock = kind == 1 ? 345 : 0; return 0; }
int nvmlDeviceGetTemperature(void *device, u32 sensor, u32 *degrees) { *degrees = sensor == 0 ? 34 : 0; return 0; }
int nvmlDeviceGetTemperatureThreshold(void *device, u32 kind, u32 *degrees) { *degrees = kind == 1 ? 87 : 0; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, u32 *width) { *width = 16; return 0; }
int nvmlDeviceGetTotalEccErrors(void *device, u32 error, u32 counter, u64 *count) {
  *count = error ? (counter ? 5 : 2) : 1ull << 40;
  return 0;
}
int nvmlDeviceGetEccMode(void *device, u32 *now, u32 *later) { *now = 1; *later = 0; return 0; }
int nvmlDeviceGetSramEccErrorStatus(void *device, Sram *sram) {
  if (old() || sram->version != (sizeof(Sram) | 1 << 24)) return 25;
  sram->aParity = 3; sram->aSecDed = 4; sram->over = 1;
  return 0;
}
int nvmlDeviceGetRemappedRows(void *device, u32 *cor, u32 *unc, u32 *pending, u32 *failed) {
  *cor = 1; *unc = 2; *pending = 1; *failed = 0;
  return 0;
}
int nvmlDeviceGetRetiredPages(void *device, u32 cause, u32 *count, u64 *pages) { *count = cause ? 2 : 5; return 7; }
int nvmlDeviceGetMemoryInfo_v2(void *device, Memory *memory) {
  if (memory->version != (sizeof(Memory) | 2 << 24)) return 25;
  memory->reserved = 700ull << 20; memory->used = 3ull << 30;
  return 0;
}
int nvmlDeviceGetBAR1MemoryInfo(void *device, Bar1 *bar) { bar->total = 128ull << 30; return 0; }
int nvmlDeviceGetFieldValues(void *device, int count, Field *field) {
  field->refused = old() ? 3 : 0;
  field->value.ull = gpu(device) ? 9 : 0xffffffff00000002ull; /* only half of it is a u32's */
  return field->id == 230 && count == 1 ? 0 : 2;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, u32 *count, Process *list) {
  if (getenv("FAKE_CROWD")) { *count = 4711; return 7; }
  if (gpu(device)) { *count = 0; return 0; }
  if (*count < 2) return 7;
  *count = 2;
  list[0].pid = 4711; list[0].used = 5; list[1].pid = 4712; list[1].used = -1ll;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, u32 *count, Process *list) {
  if (*count != 64) abort(); /* the room that there is */
  memset(list, 0, *count * sizeof *list);
  return 0;
}
int nvmlDeviceGetGpuFabricInfoV(void *device, Fabric *fabric) {
  if (old() || fabric->version != (sizeof(Fabric) | 2 << 24)) return 25;
  fabric->cluster[15] = 1; fabric->status = 23; fabric->clique = 4091; fabric->state = 3; fabric->health = 0xffffffff;
  return 0;
}
int nvmlDeviceGetGpuFabricInfo(void *device, FabricOld *fabric) { fabric->clique = 7; fabric->state = 2; return 0; }
int nvmlDeviceGetNvLinkState(void *device, u32 link, u32 *active) { *active = link < 10; return link < 18 ? 0 : 2; }
int nvmlDeviceGetNvLinkErrorCounter(void *device, u32 link, u32 counter, u64 *count) {
  *count = link == 3 && counter == 2 ? 9 : 0;
  return counter < 4 ? 0 : 2;
}
int nvmlDeviceValidateInforom(void *device) { return gpu(device) ? 14 : 0; }
