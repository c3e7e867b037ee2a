"""Numba's internals, used to compile faster: no other file depends on them.

The import of this file fails unless numba has what the file relies on: the methods must be there
and have the expected number of parameters, and with a version of numba that fastem has not been
tested with, a kernel is compiled for a trial (0.3 s). ``options`` then uses numba's public
interface instead.

Time is saved because functions that only kernels call are not optimized by themselves. Kernels on
disk are in numba's cache, made such that no file in it can stop a program. Every file begins with a
digest of what follows, so that one that was cut short or changed is known before any of it is used;
it is compiled anew and replaced. Where nothing can be written, kernels are compiled in every
process, and one warning says so.
"""

import contextlib
import gc
import hashlib
import inspect
import pickle
import tempfile
from pathlib import Path

import numba
from llvmlite.binding import Linkage
from numba import njit, types
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler
from numba.core.datamodel.models import DataModel
from numba.core.dispatcher import Dispatcher
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.runtime.context import NRTContext
from numba.core.transforms import canonicalize_cfg
from numba.core.types.functions import BaseFunction

from ..notices import warn_of_no_cache
from .fingerprint import FINGERPRINT

#: The versions of numba that need no trial.
_TESTED = {(0, minor) for minor in range(61, 69)}

_DIGEST_SIZE = hashlib.sha256().digest_size

#: How definitions are linked of which an object may replace another's.
_REPLACEABLE = (
    Linkage.linkonce_any, Linkage.linkonce_odr, Linkage.weak_any, Linkage.weak_odr
)  # fmt: skip


def kernel(function, options, variant):
    """Decorate a kernel that Python calls.

    Its code on disk is kept apart by ``variant``, what it was compiled with besides its source.
    """
    dispatcher = njit(pipeline_class=_Outer, **options)(function)
    dispatcher._cache = _cache_for(function, variant)
    # Where another kernel calls it, it is a helper.
    inner = njit(**inner_options(options))(function)
    dispatcher.get_call_template = inner.get_call_template
    dispatcher.get_overload = inner.get_overload
    return dispatcher


def inner_options(options):
    """The options of functions that only kernels call: they have no entry from Python."""
    return {
        **options,
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "pipeline_class": _Inner,
    }


class _KernelCode(JITCodeLibrary):
    """The code of a kernel and of all that it calls, which no other kernel's code can replace.

    Numba leaves functions that are called weak symbols, named after their names, argument types and
    a number that begins anew in each process; where two objects have one of the same name, the
    linker takes that of the object that came first. Objects come from the cache on disk, made by
    different processes, and each is optimized by itself: a kernel would compute something else,
    or the same in another order, after some other kernel was loaded.
    """

    def finalize(self):
        self._linking_libraries = _all_called(self)
        super().finalize()

    def _optimize_final_module(self):
        super()._optimize_final_module()
        # Not before: what is optimized stays what it was.
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage in _REPLACEABLE:
                function.linkage = Linkage.internal

    def _verify_declare_only_symbols(self):
        # A symbol without a definition would leave the addresses of all others zero.
        for function in self._final_module.functions:
            if function.is_declaration and function.name.startswith("_ZN"):
                raise AssertionError(f"{function.name} is called and was not linked.")


class _InnerCode(JITCodeLibrary):
    """Code that only other code calls: it is linked, optimized and made machine code there alone.

    Numba would do all of this for every function, with all that it calls, at each level of calls.
    What LLVM does to one function at a time stays: it brings sums into an order that is then the
    same in every kernel, whatever else is in it.
    """

    def finalize(self):
        self._finalize_dynamic_globals()
        if hasattr(self, "_reload_init"):  # in newer versions of numba
            for called in self._linking_libraries:
                self._reload_init.update(called._reload_init)
        self._finalized = True

    def alone(self):
        """A module of this code without what it calls, for kernels."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self):
        # For functions that numba compiles in its own way.
        self._ensure_finalized()
        module = self.alone().clone()
        for called in _all_called(self):
            module.link_in(called._get_module_for_linking(), preserve=True)
        return module

    def get_pointer_to_function(self, name):
        self._ensure_finalized()
        return 0

    @property
    def codegen(self):
        return _NoEnvironment(self._codegen)


def _all_called(library):
    """What a library calls, directly or not: each once, helpers without what they call.

    Callers come before what they call: LLVM leaves out a function that nothing calls yet. That
    functions name a library does not mean that their code still calls it.
    """
    seen, order = set(), []

    def visit(called):
        seen.add(called)
        if called is library or isinstance(called, _InnerCode):
            for other in called._linking_libraries:
                if other not in seen:
                    visit(other)
        order.append(called)

    visit(library)
    return [
        _Alone(called) if isinstance(called, _InnerCode) else called
        for called in reversed(order[:-1])
    ]


class _Alone:
    """A helper's code, of which only its own is linked."""

    def __init__(self, library):
        self._library = library

    def __getattr__(self, name):
        return getattr(self._library, name)

    def _get_module_for_linking(self):
        return self._library.alone()


class _NoEnvironment:
    """A code generator that has no place for a function's Python objects: kernels have none."""

    def __init__(self, codegen):
        self._codegen = codegen

    def __getattr__(self, name):
        return getattr(self._codegen, name)

    def set_env(self, name, environment):
        pass


@contextlib.contextmanager
def _quick_front_end():
    """Spare numba work whose results kernels do not need, or that it did before.

    Numba compiles under a lock, so that nothing else is compiled meanwhile.
    """
    if "get_call_type" in vars(types.Function):
        yield
        return
    types.Function.get_call_type = _remembered_call_type
    PostProcessor.run = _short_postprocessing
    NRTContext._call_incref_decref = _count_references
    try:
        with _rare_collections():
            yield
    finally:
        del types.Function.get_call_type
        PostProcessor.run = _postprocess
        NRTContext._call_incref_decref = _count_all_references


@contextlib.contextmanager
def _rare_collections():
    """Let Python look for garbage less often.

    Numba makes many objects and little garbage; looking took about a tenth of the time. What piles
    up meanwhile are 30 MB.
    """
    before = gc.get_threshold()
    raised = tuple(map(max, before, _THRESHOLDS))
    if before[0] > 0:
        gc.set_threshold(*raised)
    try:
        yield
    finally:
        if gc.get_threshold() == raised:
            gc.set_threshold(*before)


#: Objects that were made before Python looks at the youngest, and times until it looks at others.
_THRESHOLDS = 20_000, 50, 100


def _short_postprocessing(processor, emit_dels=False, extend_lifetimes=False):
    """What numba does after each of nine passes, without what only generators need.

    That is which variables live where each block begins, half a second for a Kalman filter.
    """
    code = processor.func_ir
    if code.is_generator:
        _postprocess(processor, emit_dels, extend_lifetimes)
        return
    code.blocks = canonicalize_cfg(code.blocks)
    code.variable_lifetime = VariableLifetime(code.blocks)
    code.generator_info = None
    if emit_dels:
        processor._insert_var_dels(extend_lifetimes=extend_lifetimes)


_postprocess = PostProcessor.run


def _count_references(counting, builder, kind, value, name):
    """Count references to the memory of a value, if it can have any.

    Numba takes every number and range to pieces to find out, and leaves the pieces to LLVM.
    """
    if counting._context.data_model_manager[kind].contains_nrt_meminfo():
        _count_all_references(counting, builder, kind, value, name)


_count_all_references = NRTContext._call_incref_decref


def _remembered_call_type(function, context, arguments, keywords):
    """The signature of a call, remembered for numbers and arrays.

    For each ``i + 1`` numba tries a dozen templates, thousands of times for a Kalman filter, with
    fourteen different combinations of types. What is remembered is what numba found for the same
    types before, if it is built in: what is compiled may depend on the caller's options.
    """
    # The function is kept with the signature, so that no other gets its number.
    key = id(function), arguments
    known = _known_calls.get(key)
    if known is not None and not keywords:
        return known[1]
    signature = BaseFunction.get_call_type(function, context, arguments, keywords)
    if not keywords and all(map(_is_plain, arguments)) and _is_built_in(function, signature):
        _known_calls[key] = function, signature
    return signature


_known_calls = {}


def _is_plain(kind):
    """Whether this is the type of a number or of an array of numbers."""
    return isinstance(kind, types.Number | types.Boolean) or (
        isinstance(kind, types.Array) and kind.is_precise()
    )


def _is_built_in(function, signature):
    """Whether numba has instructions for this call, rather than a function to compile."""
    return signature is not None and function.get_impl_key(signature) is function.typing_key


class _Outer(Compiler):
    """Numba's compiler, for functions that Python calls."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        if library is None:
            library = _KernelCode(targetctx.codegen(), "kernel")
            library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    def compile_extra(self, function):
        with _quick_front_end():
            return super().compile_extra(function)


class _Inner(Compiler):
    """Numba's compiler, for functions that Python does not call."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        if library is None:
            library = _InnerCode(targetctx.codegen(), "inner")
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)


def _cache_for(function, variant):
    """The cache of one kernel; one that keeps nothing if there is no place for files."""
    try:
        return _Cache(function, variant)
    except (OSError, RuntimeError) as error:  # the latter: numba has found no place
        warn_of_no_cache(error)
        return NullCache()


class _Cache(FunctionCache):
    """Numba's cache on disk, keyed by every kernel's source.

    Numba looks only at the file of the function it compiles, and would go on using stale code
    after a change to a kernel that is compiled into it from another file.
    """

    def __init__(self, function, variant):
        super().__init__(function)
        self._variant = variant
        locator = self._impl.locator
        self._cache_file = _CheckedFiles(
            cache_path=locator.get_cache_path(),
            filename_base=self._impl.filename_base,
            source_stamp=locator.get_source_stamp(),
        )

    def _index_key(self, signature, codegen):
        return (*super()._index_key(signature, codegen), FINGERPRINT, self._variant)

    def save_overload(self, signature, data):
        try:
            super().save_overload(signature, data)
        except OSError as error:
            # The disk is full, or has been made read-only since.
            warn_of_no_cache(error)


class _CheckedFiles(IndexDataCacheFile):
    """The files of one kernel: what cannot be read as it was written counts as not there."""

    def load(self, key):
        saved = self._read(self._data_path_of(key))
        # Two processes may have taken the same file for different signatures.
        return saved[1] if saved is not None and saved[0] == key else None

    def _data_path_of(self, key):
        name = self._load_index().get(key)
        return None if name is None else self._data_path(name)

    def _load_index(self):
        saved = self._read(self._index_path)
        if saved is None or saved[:2] != (self._version, self._source_stamp):
            return {}
        return saved[2]

    def _save_index(self, overloads):
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def save(self, key, data):
        super().save(key, (key, data))

    def _save_data(self, name, data):
        self._write(self._data_path(name), data)

    def _read(self, path):
        """What was written to a file; None if it is not there, or not as it was written."""
        if path is None:
            return None
        try:
            content = Path(path).read_bytes()
            body = memoryview(content)[_DIGEST_SIZE:]
            if hashlib.sha256(body).digest() != content[:_DIGEST_SIZE]:
                return None
            return pickle.loads(body)
        except Exception:  # whatever unpickling raises for a class that is no more
            return None

    def _write(self, path, content):
        body = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(body).digest())
            file.write(body)


#: The methods that are called or replaced above, and how many parameters each must have.
_METHODS = {
    JITCodeLibrary: {
        "__init__": 3,
        "finalize": 1,
        "_get_module_for_linking": 1,
        "_optimize_final_module": 1,
        "_finalize_final_module": 1,
        "_finalize_dynamic_globals": 1,
        "_verify_declare_only_symbols": 1,
        "_ensure_finalized": 1,
        "enable_object_caching": 1,
        "get_pointer_to_function": 2,
    },
    JITCPUCodegen: {"set_env": 3},
    Compiler: {"__init__": 8, "compile_extra": 2},
    BaseFunction: {"get_call_type": 4, "get_impl_key": 2},
    PostProcessor: {"run": 3, "_insert_var_dels": 2},
    VariableLifetime: {"__init__": 2},
    NRTContext: {"_call_incref_decref": 5},
    DataModel: {"contains_nrt_meminfo": 1},
    Dispatcher: {"get_call_template": 3, "get_overload": 2},
    FunctionCache: {"__init__": 2, "_index_key": 3, "save_overload": 3, "load_overload": 3},
    IndexDataCacheFile: {
        "__init__": 4,
        "_load_index": 1,
        "_save_index": 2,
        "_save_data": 3,
        "_data_path": 2,
        "_dump": 2,
        "_open_for_write": 2,
        "load": 2,
        "save": 3,
    },
}


#: What files of the cache know of themselves.
_ATTRIBUTES = {"_index_path", "_version", "_source_stamp"}


def _check_methods():
    for owner, methods in _METHODS.items():
        for name, n_parameters in methods.items():
            method = getattr(owner, name, None)
            if method is None or len(inspect.signature(method).parameters) != n_parameters:
                raise ImportError(f"{owner.__name__}.{name} is not as fastem expects it.")
    if "get_call_type" in vars(types.Function):
        raise ImportError("The types of calls are found in other ways than fastem expects.")
    if not isinstance(JITCodeLibrary.codegen, property):
        raise ImportError("JITCodeLibrary.codegen is not a property.")
    lacking = _ATTRIBUTES - vars(IndexDataCacheFile("", "", "")).keys()
    if lacking:
        raise ImportError(f"IndexDataCacheFile has no {', '.join(sorted(lacking))}.")


def _try_out():
    """Compile a kernel that calls a helper, and keep something on disk."""
    inner = njit(**inner_options({}))(lambda x: 2.0 * x)

    def four_times(x):
        return 2.0 * inner(x)

    outer = njit(pipeline_class=_Outer)(four_times)
    if outer(3.0) != 12.0:
        raise ImportError("A kernel that was compiled for a trial is wrong.")
    (code,) = (result.library for result in outer.overloads.values())
    (helper_code,) = (result.library for result in inner.overloads.values())
    if type(code) is not _KernelCode or type(helper_code) is not _InnerCode:
        raise ImportError("Numba compiles by other ways than fastem expects.")
    if any(
        not function.is_declaration and function.linkage in _REPLACEABLE
        for function in code._final_module.functions
    ):
        raise ImportError("Functions that kernels call could be replaced.")
    with tempfile.TemporaryDirectory() as folder:
        files = _CheckedFiles(folder, "trial", "stamp")
        files.save("key", "data")
        if files.load("key") != "data" or files.load("other key") is not None:
            raise ImportError("Numba's cache on disk is not as fastem expects it.")


_check_methods()
if tuple(map(int, numba.__version__.split(".")[:2])) not in _TESTED:
    _try_out()
