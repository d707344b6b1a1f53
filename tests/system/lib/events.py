"""TensorBoard's event files, read by nothing but the formats' own descriptions: records with checksums, the protocol
buffers Event and Summary, PNG. Whatever is not as described is an AssertionError."""
import os
import struct
import zlib

from harness import crc32c, expect, expect_equal
from protobuf import message

# The fields of each message.
DIM = {1: ("size", "int")}
TENSOR = {1: ("dtype", "int"), 2: ("shape", {2: ("dim", [DIM])}), 8: ("string_val", ["text"])}
PLUGIN = {1: ("plugin_name", "text")}
HISTOGRAM = {1: ("min", "double"), 2: ("max", "double"), 3: ("num", "double"), 4: ("sum", "double"),
             5: ("sum_squares", "double"), 6: ("limits", "doubles"), 7: ("counts", "doubles")}
IMAGE = {1: ("height", "int"), 2: ("width", "int"), 3: ("colorspace", "int"), 4: ("png", "bytes")}
VALUE = {1: ("tag", "text"), 2: ("scalar", "float"), 4: ("image", IMAGE), 5: ("histogram", HISTOGRAM),
         8: ("tensor", TENSOR), 9: ("metadata", {1: ("plugin", PLUGIN)})}
EVENT = {1: ("wall_time", "double"), 2: ("step", "int"), 3: ("file_version", "text"),
         5: ("summary", {1: ("value", [VALUE])}), 7: ("session_log", {1: ("status", "int")}),
         10: ("source", {1: ("writer", "text")})}
START = 1


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def events_in(file_path):
    """All events of a whole file, in order."""
    with open(file_path, "rb") as file:
        data = file.read()
    found, at = [], 0
    while at < len(data):
        size, size_crc = struct.unpack_from("<QI", data, at)
        expect_equal(masked(data[at:at + 8]), size_crc, "checksum of a length at byte %d of %s" % (at, file_path))
        body = data[at + 12:at + 12 + size]
        expect_equal(masked(body), struct.unpack_from("<I", data, at + 12 + size)[0], "checksum at byte %d" % at)
        found.append(message(body, EVENT))
        at += 16 + size
    return found


def event_files(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if "tfevents" in name)


def value_of(value):
    """A scalar, a text, an image's (rows of pixels), or a histogram's fields."""
    if "scalar" in value:
        return value["scalar"]
    if "tensor" in value:
        expect_equal(value["metadata"]["plugin"]["plugin_name"], "text")
        expect_equal((value["tensor"]["dtype"], len(value["tensor"]["string_val"])), (7, 1))
        return value["tensor"]["string_val"][0]
    return pixels(value["image"]) if "image" in value else value["histogram"]


def shown(folder):
    """{tag: {x: value}} as in TensorBoard: a START removes the values at its step and later ones. No value may occur
    twice, before or after that."""
    tags, all_places = {}, set()
    for file in event_files(folder):
        events = events_in(file)
        expect_equal(events[0].get("file_version"), "brain.Event:2", file)
        expect_equal(events[1].get("session_log"), {"status": START}, file)
        begin = events[1]["step"]
        for values in tags.values():
            for x in [x for x in values if x >= begin]:
                del values[x]
        for event in events[2:]:
            for value in event["summary"]["value"]:
                place = (value["tag"], event["step"])
                expect(place not in all_places, "twice: %s at %d" % place, file)
                all_places.add(place)
                tags.setdefault(value["tag"], {})[event["step"]] = value_of(value)
    expect_equal({(tag, x) for tag, values in tags.items() for x in values}, all_places, "what is taken back")
    return tags


def pixels(image):
    """Rows of samples, 8 bits each, of a PNG without interlacing."""
    data, at, packed = image["png"], 8, b""
    expect_equal(data[:8], b"\x89PNG\r\n\x1a\n")
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + size]
        expect_equal(zlib.crc32(kind + body), struct.unpack_from(">I", data, at + 8 + size)[0], kind)
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    expect_equal((width, height, depth, interlaced), (image["width"], image["height"], 8, 0))
    channels = {0: 1, 2: 3}[colour]
    expect_equal(channels, image["colorspace"])
    raw, stride = zlib.decompress(packed), width * channels
    expect_equal(len(raw), height * (stride + 1))
    rows = [bytes(stride)]
    for y in range(height):
        rows.append(unfiltered(raw[y * (stride + 1)], raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)], rows[-1],
                               channels))
    return rows[1:]


def unfiltered(kind, row, above, channels):
    out = bytearray(row)
    for i in range(len(out)):
        left = out[i - channels] if i >= channels else 0
        corner = above[i - channels] if i >= channels else 0
        up = above[i]
        estimate = left + up - corner
        nearest = min((abs(estimate - left), 0, left), (abs(estimate - up), 1, up), (abs(estimate - corner), 2, corner))
        out[i] = out[i] + (0, left, up, (left + up) // 2, nearest[2])[kind] & 0xff
    return bytes(out)
