"""PNG files, written with nothing but the format's own description."""
import struct
import zlib


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, pixels):
    """`pixels`: red, green and blue of each, row by row."""
    return picture(width, height, pixels, 3 * width, 8, 2)


def deep_grey_png(width, height, pixels):
    """`pixels`: two bytes of each, the high one first."""
    return picture(width, height, pixels, 2 * width, 16, 0)


def picture(width, height, pixels, bytes_of_row, bits, colours):
    rows = b"".join(b"\0" + bytes(pixels[bytes_of_row * y:bytes_of_row * (y + 1)]) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
