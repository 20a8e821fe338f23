"""perftest's table, of old and new versions, and its complaints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.measure.perftest import Bandwidth, complaint, read_bandwidth

LINE = "-" * 87
HEAD = f"""
{LINE}
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Mtu             : 4096[B]
 local address: LID 0x21 QPN 0x0124 PSN 0x9c2c5e RKey 0x1fff00 VAddr 0x007f1c
{LINE}
"""


def table(unit: str, *rows: str) -> str:
    columns = f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n"
    return HEAD + columns + "".join(f" {row}\n" for row in rows) + LINE + "\n"


def test_a_row_in_gigabits_is_read_as_it_stands() -> None:
    text = table("Gb/sec", "1048576    5000             391.97             391.90 \t\t   0.046718")
    assert read_bandwidth(text) == Bandwidth(1048576, 5000, 391.97, 391.90)


@pytest.mark.parametrize("unit", ["MB/sec", "MiB/sec"])
def test_megabytes_are_mebibytes_whatever_they_are_called(unit: str) -> None:
    row = read_bandwidth(table(unit, "65536      5000             11500.00           11000.00   0.176000"))
    assert row is not None and round(row.average_gbps, 2) == 92.27


def test_the_largest_message_counts_and_a_peak_of_zero_is_none() -> None:
    text = table("Gb/sec", "65536  1000  0.00  300.00  0.57", "1048576  1000  0.00  380.00  0.05")
    assert read_bandwidth(text) == Bandwidth(1048576, 1000, None, 380.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD,
        table("Gb/sec"),
        table("Furlongs", "1 2 3 4 5"),
        "1048576 5000 391 391 0.04",
        table("Gb/sec", "1 2 x y z"),
    ],
)
def test_without_a_row_below_its_head_there_is_no_rate(text: str) -> None:
    assert read_bandwidth(text) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ib_write_bw: unrecognized option '--use_cuda=0'\n Invalid Command or flag.\n", "unrecognized option"),
        (" Did not detect devices \n If device exists, check if driver is up\n", "Did not detect devices"),
        ("WARNING: BW peak won't be measured\nCouldn't allocate MR\nFailed to create MR\n", "Couldn't allocate MR"),
        (" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n", "Completion with error"),
        (table("Gb/sec", "1048576 5000 391.97 391.90 0.04"), ""),
    ],
)
def test_the_first_complaint_is_told(text: str, says: str) -> None:
    assert says in complaint(text) and bool(says) == bool(complaint(text))


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    assert read_bandwidth(text) is None or read_bandwidth(text).average_gbps is not None  # type: ignore[union-attr]
    complaint(text)
