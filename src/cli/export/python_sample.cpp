#include "cli/export/python_sample.h"

#include "checkpoint/sealed_json.h"

namespace ct {
namespace {

constexpr std::string_view kOpening = "# as cifar-train wrote it, CRC32C ";

constexpr std::string_view kProgram = R"(
"""usage: python3 MODEL.onnx.py PICTURE...: their classes by MODEL.onnx. Needs numpy, onnxruntime and Pillow."""
import json, sys
import numpy, onnxruntime
from PIL import Image

session = onnxruntime.InferenceSession(__file__.removesuffix(".py"), providers=["CPUExecutionProvider"])
told = {key: json.loads(session.get_modelmeta().custom_metadata_map[key]) for key in ("class_names", "resize")}
names, rule = told["class_names"], told["resize"]
for path in sys.argv[1:] or sys.exit(__doc__):
    picture = Image.open(path)
    if picture.mode.startswith("I"):  # grey of 16 bits: the high byte counts
        picture = Image.fromarray((numpy.asarray(picture) >> 8).astype("uint8"))
    width, height = (side * rule["shorter_side"] // min(picture.size) for side in picture.size)
    left, top, crop = round((width - rule["crop"]) / 2), round((height - rule["crop"]) / 2), rule["crop"]
    picture = picture.convert("RGB").resize((width, picture.height), Image.Resampling.BILINEAR)  # first to its width
    picture = picture.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + crop, top + crop))
    pixels = numpy.asarray(picture.convert(rule["mode"])).reshape(1, crop, crop, -1)
    answer = session.run(None, {"images": pixels})[0][0]
    print(path + ":", ", ".join("%s %.4f" % (names[c], answer[c]) for c in numpy.argsort(-answer)[:3]))
)";

}  // namespace

std::string python_sample() { return seal(kOpening, kProgram); }

bool is_python_sample(std::string_view text) { return is_sealed(text, kOpening); }

}  // namespace ct
