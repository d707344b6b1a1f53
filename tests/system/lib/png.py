"""PNG files, written with nothing but the format's own description."""
import struct
import zlib


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, pixels):
    """`pixels`: red, green and blue of each, row by row."""
    rows = b"".join(b"\0" + bytes(pixels[3 * width * y:3 * width * (y + 1)]) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
