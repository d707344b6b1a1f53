"""Writes the files of torch.save() without PyTorch: a zip archive with a pickle and the elements of each storage."""
import collections
import io
import pickle
import zipfile

_STORAGES = {"F32": "FloatStorage", "F64": "DoubleStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage",
             "I64": "LongStorage", "U8": "ByteStorage"}


class Global:
    """What a pickle names `module.name`; it need not exist."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Called:
    """An object that the reader of the pickle makes by calling module.name(*args)."""

    def __init__(self, module, name, *args):
        self.function, self.args = Global(module, name), args


class Tensor:
    def __init__(self, dtype, shape, data, strides=None, first=0):
        self.dtype, self.shape, self.data, self.first = dtype, tuple(shape), data, first
        self.strides = strides or tuple(self._step(i) for i in range(len(shape)))

    def _step(self, i):
        step = 1
        for n in self.shape[i + 1:]:
            step *= n
        return step


class _Storage:
    def __init__(self, tensor):
        self.tensor = tensor


class _Pickler(pickle._Pickler):
    def __init__(self, file, storages):
        super().__init__(file, protocol=2, fix_imports=False)
        self.storages = storages

    def persistent_id(self, thing):
        if not isinstance(thing, _Storage):
            return None
        self.storages.append(thing.tensor.data)
        storage = Global("torch", _STORAGES.get(thing.tensor.dtype, thing.tensor.dtype))
        return "storage", storage, str(len(self.storages) - 1), "cpu", len(thing.tensor.data)

    def save(self, thing, save_persistent_id=True):
        if isinstance(thing, Global):
            self.write(pickle.GLOBAL + thing.module.encode() + b"\n" + thing.name.encode() + b"\n")
        elif isinstance(thing, Called):
            self.save(thing.function)
            self.save(tuple(thing.args))
            self.write(pickle.REDUCE)
        elif isinstance(thing, Tensor):
            self.save(Called("torch._utils", "_rebuild_tensor_v2", _Storage(thing), thing.first, thing.shape,
                             thing.strides, False, collections.OrderedDict()))
        else:
            super().save(thing, save_persistent_id)


def torch_save(path, thing, **options):
    """`thing`: numbers, texts, containers, Tensors and what is Called."""
    code, storages = io.BytesIO(), []
    _Pickler(code, storages).dump(thing)
    return torch_archive(path, code.getvalue(), storages, **options)


def torch_archive(path, code, storages=(), compression=zipfile.ZIP_STORED, byteorder=b"little", without=()):
    with zipfile.ZipFile(path, "w", compression) as file:
        files = {"data.pkl": code, "byteorder": byteorder, "version": b"3\n"}
        files.update({"data/%d" % i: data for i, data in enumerate(storages)})
        for name, data in files.items():
            if name not in without:
                file.writestr("archive/" + name, data)
    return path
