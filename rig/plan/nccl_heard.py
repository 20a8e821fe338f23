"""What a run said: NCCL's own messages and the operator's words, as facts that no file of the machine holds.

A boot has heard nothing yet: this is for a look back at a run that went wrong, with its log at hand.

Messages: NVIDIA/nccl src (transport/net_ib.cc, bootstrap.cc, init.cc), libibverbs completion codes (12 =
IBV_WC_RETRY_EXC_ERR, 4 = IBV_WC_LOC_PROT_ERR), errno texts.
"""

from rig.lean import NamedTuple

_FAILED = (
    "fail", "hang", "hung", "crash", "abort", "stuck", "unreachable", "retry exceeded", "cannot connect", " timeout",
    "timed out", "reset by peer", "refused", "error", "deadlock", "freeze", "frozen",
)  # fmt: skip
_RETRY = ("status 12", "status=12", "error 12", "retry exceeded", "vendor err 129", "vendor error 129", "retry exc")
_UNREACHABLE = ("network is unreachable", "no route to host", "network unreachable", "enetunreach")
_GDR_OFF = ("gpu direct rdma disabled", "gdr disabled", "gdr is disabled", "gdrdma disabled")
_V1_ONLY = (
    "index 0 only",
    "only with index 0",
    "only index 0",
    "v1 works",
    "only v1",
    "v1 only works",
    "v2 fails",
    "v2 drop",
)
_PEER_ACCESS = ("p2p", "gdr", "gpudirect", "peer access", "gpu direct", "direct rdma", "peer-to-peer")
_NOT_PASSED = (
    "not propagated", "not passed", "not exported", "not forwarded", "does not reach", "do not reach", "not seen by",
    "only on the first node", "only on the head", "not inherited",
)  # fmt: skip
_STALLED = ("hang", "hung", "crash", "stuck", "local protection", "corrupt", "deadlock", "freeze", "frozen")


class Heard(NamedTuple):
    """What the symptoms amount to. All False: nothing was heard."""

    failed: bool = False
    retries_exceeded: bool = False
    network_unreachable: bool = False
    gdr_disabled: bool = False
    v2_fails: bool = False
    peer_access_stalls: bool = False
    not_propagated: bool = False


def listen(symptoms: tuple[str, ...]) -> Heard:
    """Read log lines or words; case does not matter. Nothing here is ever required."""
    text = " " + "\n ".join(symptoms).lower()  # a word at its beginning, unlike NCCL_IB_TIMEOUT, follows a blank

    def any_of(words: tuple[str, ...]) -> bool:
        return any(word in text for word in words)

    return Heard(
        any_of(_FAILED),
        any_of(_RETRY),
        any_of(_UNREACHABLE),
        any_of(_GDR_OFF),
        any_of(_V1_ONLY),
        any_of(_PEER_ACCESS) and any_of(_STALLED),
        any_of(_NOT_PASSED),
    )
