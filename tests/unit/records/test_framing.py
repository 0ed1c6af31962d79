from __future__ import annotations

import google_crc32c

from penstock.records.framing import frame, masked_crc

GOLDEN_FRAME = bytes.fromhex("0300000000000000b099490e6162636e57f121")
"""tf.io.TFRecordWriter(...).write(b"abc"), TensorFlow 2.21."""


def test_framing_is_tensorflows():
    assert frame(b"abc") == GOLDEN_FRAME


def test_crc_is_castagnoli_masked():
    """RFC 3720, B.4: 32 bytes of zeros have CRC32C 8a9136aa."""
    assert google_crc32c.value(bytes(32)) == 0x8A9136AA
    assert masked_crc(bytes(32)) == (((0x8A9136AA >> 15) | (0x8A9136AA << 17)) + 0xA282EAD8) & 0xFFFFFFFF
