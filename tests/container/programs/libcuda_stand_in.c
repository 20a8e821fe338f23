/* A libcuda with two GPUs, to try the way the probe calls the real one: argument types, pointers, results.
 * STAND_IN_INIT: what cuInit answers. STAND_IN_SECOND: what making a context on the second GPU answers; -1: never.
 * Signatures from cuda.h, the driver API. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int asked(const char *name) {
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

int cuInit(unsigned flags) { return flags ? 1 : asked("STAND_IN_INIT"); }

int cuDeviceGetCount(int *count) { *count = 2; return 0; }

int cuDeviceGet(int *device, int ordinal) { *device = 100 + ordinal; return ordinal < 2 ? 0 : 101; }

int cuDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, (size_t)length, "0000:%X:00.0", device - 100 ? 0x3B : 0x19);
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    int answer = device == 101 ? asked("STAND_IN_SECOND") : 0;
    while (answer == -1)
        pause();
    *context = (void *)0x1234;
    return answer;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return device == 100 || device == 101 ? 0 : 101; }

int cuCtxSetCurrent(void *context) { return context == (void *)0x1234 ? 0 : 201; }

int cuCtxSynchronize(void) { return 0; }

int cuMemAlloc_v2(uint64_t *pointer, size_t size) {
    if (size != 1 << 20)
        return 1;
    *pointer = (uint64_t)(uintptr_t)calloc(1, size);
    return 0;
}

int cuMemFree_v2(uint64_t pointer) { free((void *)(uintptr_t)pointer); return 0; }

int cuModuleLoadData(void **module, const void *image) {
    *module = (void *)0x77;
    return strstr(image, ".entry count(") ? 0 : 218;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = (void *)0x88;
    return module == (void *)0x77 && strcmp(name, "count") == 0 ? 0 : 500;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    if (function != (void *)0x88 || gx * gy * gz != 1 || by * bz != 1 || shared || stream || extra)
        return 1;
    uint32_t *memory = (uint32_t *)(uintptr_t)*(uint64_t *)parameters[0];
    for (unsigned thread = 0; thread < bx; thread++)
        memory[thread] = thread + 1;
    return 0;
}

int cuMemcpyDtoH_v2(void *into, uint64_t from, size_t size) {
    memcpy(into, (void *)(uintptr_t)from, size);
    return 0;
}

int cuGetErrorName(int code, const char **text) {
    *text = code == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : NULL;
    return *text ? 0 : 1;
}
