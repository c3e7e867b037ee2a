"""Files: exact to the bit, whole or not at all, and refused in clear words when they are not."""

import enum
import errno
import io
import json
import math
import os
import pathlib
import signal
import stat
import struct
import subprocess
import sys
import textwrap
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fastem.saving import files
from fastem.saving.files import FileError, read, write

DTYPES = ["?", "i1", "u1", "<i2", ">i4", "<u4", "<i8", ">u8", "<f2", "<f4", ">f4", "<f8", ">f8"]
DTYPES += ["<c8", ">c8", "<c16", ">c16"]
SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (2, 3, 4)]

OLD = ("mixture", {"k": 3}, {"weights": np.array([0.25, 0.75])})


def bits(array):
    return array.dtype.str, array.shape, array.tobytes()


def same(one, other):
    """Equality that tells -0.0 from 0.0, 1 from 1.0 and from True, and knows NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


def assert_old(path):
    """The file is readable and as it was."""
    kind, settings, arrays = read(path)
    assert (kind, settings) == OLD[:2]
    assert list(arrays) == ["weights"]
    assert bits(arrays["weights"]) == bits(OLD[2]["weights"])


def craft(path, manifest, members=()):
    """Write a zip by hand, as fastem would not."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(files.MANIFEST, manifest)
        for name, data in members:
            archive.writestr(name, data)


def manifest(**changes):
    whole = {"format": "fastem", "version": 1, "kind": "k", "settings": {}}
    return json.dumps(whole | changes)


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.fastem"


@pytest.fixture
def old(path):
    write(path, *OLD)
    return path


# Round trips


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back_to_the_bit(path, dtype, shape):
    rng = np.random.default_rng(0)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = rng.integers(0, 2 if dtype == "?" else 256, size, dtype=np.uint8)  # NaNs of all kinds
    array = np.frombuffer(raw.tobytes(), dtype).reshape(shape)
    write(path, "k", {}, {"x": array})
    back = read(path).arrays["x"]
    assert bits(back) == bits(array)
    assert back.dtype == array.dtype
    assert back.flags.writeable and back.flags.aligned


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    array=hnp.arrays(
        st.one_of(
            hnp.boolean_dtypes(),
            hnp.integer_dtypes(endianness="?"),
            hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
            hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
        ),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    )
)
def test_any_array_comes_back_to_the_bit(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("any") / "file"
    write(path, "k", {}, {"x": array})
    assert bits(read(path).arrays["x"]) == bits(array)


def test_special_floats_keep_their_bits(path):
    patterns = [0x7FF8000000000001, 0x7FF0000000000001, 0xFFF8DEADBEEF0000]  # quiet, signaling
    patterns += [0x8000000000000000, 0x0000000000000001, 0x7FF0000000000000, 0xFFF0000000000000]
    array = np.array(patterns, np.uint64).view(np.float64)
    write(path, "k", {}, {"x": array, "first": array[0:1].reshape(())})
    back = read(path).arrays
    assert back["x"].view(np.uint64).tolist() == patterns
    assert int(back["first"].view(np.uint64)) == patterns[0]


def test_long_doubles_come_back_equal(path):
    array = np.array([np.longdouble(1) / 3, -np.longdouble(0), np.inf], np.longdouble)
    write(path, "k", {}, {"x": array})
    back = read(path).arrays["x"]
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert np.array_equal(np.signbit(back), np.signbit(array))


@pytest.mark.parametrize(
    "view",
    [
        lambda a: np.asfortranarray(a),
        lambda a: a[::2, ::-1],
        lambda a: a.T[1:],
        lambda a: np.broadcast_to(a[0], (5, 4)),
    ],
)
def test_layout_does_not_matter(path, view):
    array = view(np.arange(24.0).reshape(6, 4))
    write(path, "k", {}, {"x": array})
    assert bits(read(path).arrays["x"]) == bits(array)


def test_larger_than_one_chunk(path, monkeypatch):
    monkeypatch.setattr(files, "_CHUNK", 1 << 10)
    array = np.random.default_rng(1).normal(size=(999, 3))
    write(path, "k", {}, {"x": array, "y": -array})
    back = read(path).arrays
    assert bits(back["x"]) == bits(array)
    assert bits(back["y"]) == bits(-array)


def test_kind_names_and_order(path):
    names = ["b", "a", "x.npy", "fastem.json", "groupe/été", ""]
    write(path, "ключ", {}, {name: np.array(i) for i, name in enumerate(names)})
    kind, settings, arrays = read(path)
    assert kind == "ключ"
    assert settings == {}
    assert list(arrays) == names
    assert [int(array) for array in arrays.values()] == list(range(len(names)))


def test_no_arrays_at_all(path):
    write(path, "k", {"a": 1}, {})
    assert read(path) == ("k", {"a": 1}, {})


def test_numpy_scalar_comes_back_as_an_array(path):
    write(path, "k", {}, {"x": np.float32(0.1)})
    back = read(path).arrays["x"]
    assert isinstance(back, np.ndarray)
    assert bits(back) == bits(np.asarray(np.float32(0.1)))


def test_numpy_opens_the_arrays(old):
    with np.load(old, allow_pickle=False) as loaded:
        assert bits(loaded["weights"]) == bits(OLD[2]["weights"])
    with zipfile.ZipFile(old) as archive:
        assert archive.namelist() == ["fastem.json", "weights.npy"]
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        said = json.loads(archive.read("fastem.json"))
    assert said == {"format": "fastem", "version": 1, "kind": "mixture", "settings": {"k": 3}}


def test_equal_contents_make_equal_files(old, tmp_path):
    write(tmp_path / "again", *OLD)
    assert (tmp_path / "again").read_bytes() == old.read_bytes()


@pytest.mark.parametrize("kind_of_path", [str, pathlib.Path])
def test_paths_of_both_kinds(path, kind_of_path):
    write(kind_of_path(path), *OLD)
    assert os.listdir(path.parent) == [path.name]  # no suffix was added
    assert read(kind_of_path(path)).kind == "mixture"


def test_path_relative_to_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("here", *OLD)
    assert_old(tmp_path / "here")


# Settings


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        2**127 + 1,
        0.1,
        1.0,
        -0.0,
        5e-324,
        1.7976931348623157e308,
        math.inf,
        -math.inf,
        math.nan,
        "",
        'quote " \\ \n é 𝄞 \ud800',
        [],
        {},
        [1, [2.0, [math.nan, None]], {"a": [-math.inf]}],
        {"": 1, "a b": {"c": False}},
        # What looks like an encoding of ours is still only a dict.
        {"float": "inf"},
        {"float": math.inf},
        {"dict": {"float": "nan"}},
        {"dict": {"dict": {"dict": 1}}},
        {"float": 1, "dict": 2},
    ],
    ids=repr,
)
def test_a_setting_comes_back_exactly(path, value):
    settings = {"a": value, "b": [value]}
    write(path, "k", settings, {})
    assert same(read(path).settings, settings)


@pytest.mark.parametrize("settings", [{"float": "inf"}, {"dict": {}}, {"dict": 1}])
def test_whole_settings_that_look_like_an_encoding(path, settings):
    write(path, "k", settings, {})
    assert same(read(path).settings, settings)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["float", "dict", "x"]) | st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@hypothesis_settings(max_examples=60, deadline=None)
@given(settings=st.dictionaries(st.text(), json_values, max_size=3))
def test_any_settings_come_back_exactly(tmp_path_factory, settings):
    path = tmp_path_factory.mktemp("any") / "file"
    write(path, "k", settings, {})
    assert same(read(path).settings, settings)


class Color(enum.IntEnum):
    RED = 2


class Word(str, enum.Enum):  # noqa: UP042 - its str() is not its value, unlike that of a StrEnum
    YES = "yes"


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        (np.float64(0.1), 0.1),
        (np.float32(0.1), 0.10000000149011612),
        (np.float64(-0.0), -0.0),
        (np.float32(-np.inf), -math.inf),
        (np.float16(np.nan), math.nan),
        (np.int32(-7), -7),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.bool_(True), True),
        (np.str_("s"), "s"),
        ((1, (2.0, None)), [1, [2.0, None]]),
        (Color.RED, 2),
        (Word.YES, "yes"),
        ({Word.YES: 1, np.str_("t"): 2}, {"yes": 1, "t": 2}),
    ],
    ids=repr,
)
def test_settings_become_plain_python(path, given_value, expected):
    write(path, "k", {"a": given_value}, {})
    assert same(read(path).settings, {"a": expected})


def test_the_manifest_is_strict_json(path):
    write(path, "k", {"a": [math.inf, -math.inf, math.nan]}, {})

    def refuse(word):
        raise AssertionError(word)

    with zipfile.ZipFile(path) as archive:
        said = json.loads(archive.read("fastem.json"), parse_constant=refuse)
    assert said["settings"]["a"] == [{"float": "inf"}, {"float": "-inf"}, {"float": "nan"}]


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        b"bytes",
        1j,
        object(),
        len,
        np.complex128(1j),
        np.longdouble(1) / 3,
        np.datetime64("NaT"),
        np.timedelta64(5, "ns"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_settings_are_refused_by_name(old, value):
    with pytest.raises(TypeError) as caught:
        write(old, "k", {"prior": {"scale": [1.0, value]}}, {})
    assert "settings['prior']['scale'][1]" in str(caught.value)
    assert type(value).__name__ in str(caught.value)
    assert_old(old)


def test_an_array_among_the_settings_is_sent_to_the_arrays(path):
    with pytest.raises(TypeError, match=r"settings\['a'\].*ndarray.*put it among the arrays"):
        write(path, "k", {"a": np.zeros(2)}, {})
    assert not path.exists()


def test_keys_must_be_strings(path):
    with pytest.raises(TypeError, match=r"settings\['a'\] has the key 1 of type int"):
        write(path, "k", {"a": {1: 2}}, {})
    assert not path.exists()


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [(3, {}, "kind must be a string, not int"), ("k", [1], "settings must be a dict, not list")],
)
def test_kind_and_settings_have_their_types(path, kind, settings, words):
    with pytest.raises(TypeError, match=words):
        write(path, kind, settings, {})
    assert not path.exists()


# What is refused among the arrays


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([None, {}]), "array 'means' has dtype object"),
        (np.array(["a"]), "array 'means' has dtype <U1"),
        (np.zeros(2, [("a", "f8"), ("b", "O")]), r"array 'means' has dtype \[\("),
        (np.array(["2020"], "M8[Y]"), "array 'means' has dtype datetime64"),
        ([1.0, 2.0], "array 'means' must be a numpy array, not list"),
        (np.ma.masked_equal([1, 2], 2), "array 'means' is masked"),
    ],
    ids=["object", "string", "structured", "date", "list", "masked"],
)
def test_other_arrays_are_refused_by_name(old, array, words):
    with pytest.raises(TypeError, match=words):
        write(old, "k", {}, {"good": np.zeros(2), "means": array})
    assert_old(old)
    assert os.listdir(old.parent) == [old.name]


def test_names_of_arrays(old):
    with pytest.raises(TypeError, match="name of an array must be a string, not 3"):
        write(old, "k", {}, {3: np.zeros(1)})
    with pytest.raises(ValueError, match="cannot be saved under this name"):
        write(old, "k", {}, {"a\0b": np.zeros(1)})
    assert_old(old)


# Whole or not at all


class Crash(BaseException):
    """Like KeyboardInterrupt: not an Exception."""


@pytest.mark.parametrize("error", [OSError("disk full"), Crash()], ids=["error", "interrupt"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_crash_while_writing_a_member(path, monkeypatch, error, exists):
    if exists:
        write(path, *OLD)
    write_array = np.lib.format.write_array
    seen = []

    def crash(member, array, **options):
        seen.append(os.listdir(path.parent))
        if len(seen) == 2:
            member.write(b"half a mem")
            raise error
        write_array(member, array, **options)

    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array", crash)
        with pytest.raises(type(error)) as caught:
            write(path, "new", {}, {"a": np.zeros(5), "b": np.ones(5), "c": np.ones(5)})
    assert caught.value is error
    assert len(seen) == 2
    assert len(seen[-1]) == exists + 1  # a temporary was there, beside the file
    assert os.listdir(path.parent) == [path.name] * exists
    if exists:
        assert_old(path)


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("no"), Crash()], ids=["error", "interrupt"])
def test_a_crash_before_the_replacement(old, monkeypatch, function, error):
    def crash(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(files.os, function, crash)
        with pytest.raises(type(error)) as caught:
            write(old, "new", {}, {"a": np.zeros(5)})
    assert caught.value is error
    assert os.listdir(old.parent) == [old.name]
    assert_old(old)


def test_the_file_is_whole_and_synced_before_it_replaces(old, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace

    def spy_fsync(descriptor):
        steps.append("fsync")
        fsync(descriptor)

    def spy_replace(source, target):
        steps.append("replace")
        assert os.path.dirname(source) == os.path.dirname(target)
        assert read(source).kind == "new"
        assert_old(target)
        replace(source, target)

    monkeypatch.setattr(files.os, "fsync", spy_fsync)
    monkeypatch.setattr(files.os, "replace", spy_replace)
    write(old, "new", {}, {"a": np.zeros(5)})
    assert steps == ["fsync", "replace"]
    assert read(old).kind == "new"


@pytest.mark.parametrize("where", ["member", "replace"])
def test_a_killed_process_leaves_the_old_file(old, where):
    script = """
        import os, sys
        import numpy as np
        from fastem import files

        def die(*arguments, **options):
            if sys.argv[2] == "member":
                arguments[0].write(bytes(100_000))
            os._exit(7)

        if sys.argv[2] == "member":
            np.lib.format.write_array = die
        else:
            os.replace = die
        files.write(sys.argv[1], "new", {}, {"a": np.zeros(1000)})
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(old), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 7, done.stderr
    assert_old(old)
    write(old, "newer", {}, {})  # what the dead process left is not in the way
    assert read(old).kind == "newer"


posix = pytest.mark.skipif(os.name != "posix", reason="permissions, locks and links of POSIX")


def start_writing(path):
    """A process that is in the middle of writing a file, and goes on when it is told to."""
    script = """
        import sys
        import numpy as np
        from fastem import files

        write_array = np.lib.format.write_array

        def pause(member, array, **options):
            member.write(b"")
            print("in the middle", flush=True)
            sys.stdin.readline()
            write_array(member, array, **options)

        np.lib.format.write_array = pause
        files.write(sys.argv[1], "new", {}, {"a": np.zeros(1000)})
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "in the middle\n"
    return process


@posix
def test_what_a_killed_process_left_is_removed_by_the_next(old):
    with start_writing(old) as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert len(os.listdir(old.parent)) == 2
    assert_old(old)
    write(old.parent / "other", *OLD)
    assert sorted(os.listdir(old.parent)) == sorted([old.name, "other"])
    assert_old(old)


@posix
def test_what_a_living_process_writes_is_left_to_it(old):
    with start_writing(old) as process:
        for _ in range(3):
            write(old.parent / "other", *OLD)
        assert len(os.listdir(old.parent)) == 3
        process.communicate("go on\n", timeout=120)
    assert process.returncode == 0
    assert sorted(os.listdir(old.parent)) == sorted([old.name, "other"])
    assert read(old).kind == "new"


@posix
def test_a_file_that_is_removed_before_it_is_locked_is_made_again(old, monkeypatch):
    lock = files._lock
    removed = []

    def too_late(file, *, wait):
        if wait and not removed:
            removed.append(file.name)
            os.unlink(file.name)
        return lock(file, wait=wait)

    monkeypatch.setattr(files, "_lock", too_late)
    write(old, "new", {}, {"a": np.zeros(5)})
    assert len(removed) == 1
    assert read(old).kind == "new"
    assert os.listdir(old.parent) == [old.name]


@posix
def test_without_locks_nothing_is_removed(old, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    left = old.parent / ".fastem-writing-0123456789abcdef.tmp"
    left.write_bytes(b"")
    monkeypatch.setattr(files.fcntl, "flock", no_locks)
    write(old, "new", {}, {})
    assert read(old).kind == "new"
    assert left.exists()


def test_only_temporary_files_are_removed(old):
    names = [".fastem-0123456789abcdef.tmp", ".fastem-writing-a", "fastem-writing-a.tmp"]
    for name in names:
        (old.parent / name).write_bytes(b"")
    write(old, "new", {}, {})
    assert sorted(os.listdir(old.parent)) == sorted([old.name, *names])


def test_many_threads_write_into_one_folder(tmp_path):
    def save(number):
        for _ in range(20):
            write(tmp_path / f"{number % 3}", "kind", {"number": number}, {"a": np.zeros(10)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(8)))
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2"]
    assert read(tmp_path / "0").kind == "kind"


def permissions(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@posix
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(path, mask, mode):
    before = os.umask(mask)
    try:
        write(path, *OLD)
    finally:
        os.umask(before)
    assert permissions(path) == mode


@posix
def test_permissions_of_an_old_file_are_kept(old):
    os.chmod(old, 0o640)
    write(old, "new", {}, {})
    assert permissions(old) == 0o640
    assert read(old).kind == "new"


@posix
def test_a_link_stays_a_link(old, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(old)
    write(link, "new", {}, {})
    assert link.is_symlink()
    assert read(old).kind == "new"


def test_a_directory_is_not_replaced(tmp_path):
    target = tmp_path / "directory"
    target.mkdir()
    with pytest.raises(FileError, match=r"not an ordinary file.*Choose another path"):
        write(target, *OLD)
    assert os.listdir(tmp_path) == ["directory"]


@posix
def test_a_pipe_is_not_replaced(path):
    os.mkfifo(path)
    with pytest.raises(FileError, match="not an ordinary file"):
        write(path, *OLD)
    assert stat.S_ISFIFO(os.stat(path).st_mode)


def test_writing_into_a_missing_directory(tmp_path):
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "none" / "file", *OLD)
    assert os.listdir(tmp_path) == []


# What is not a good file


def assert_refused(path, *words):
    with pytest.raises(FileError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    for word in words:
        assert word in message


def test_a_missing_file_is_missing(path):
    with pytest.raises(FileNotFoundError):
        read(path)
    assert issubclass(FileError, ValueError) and not issubclass(FileError, OSError)


@pytest.mark.parametrize(
    "data",
    [
        np.random.default_rng(2).bytes(5000),
        b"a text file\n" * 10,
        b"Pk",
        npy(np.zeros(3)),
        b"PK\x05\x06" + bytes(18),  # a zip of nothing
    ],
    ids=["random", "text", "short", "npy", "empty zip"],
)
def test_not_a_fastem_file(path, data):
    path.write_bytes(data)
    assert_refused(path, "is not a fastem file.", "Give the path of a file that fastem saved")


def test_an_empty_file(path):
    path.touch()
    assert_refused(path, "is not a fastem file: it is empty.", "Give the path")


def test_an_ordinary_npz(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, weights=np.zeros(3))
    assert_refused(path, "is not a fastem file.")
    path.write_bytes(path.read_bytes()[:-30])
    assert_refused(path, "is not a fastem file.")


@pytest.mark.parametrize("said", ['{"format": "other"}', "[]", "3"])
def test_a_manifest_of_another_program(path, said):
    craft(path, said)
    assert_refused(path, "is not a fastem file.")


def test_cut_short_anywhere(old):
    whole = old.read_bytes()
    for length in range(1, len(whole)):
        old.write_bytes(whole[:length])
        assert_refused(old, "is cut short", "its end is missing", "Copy it again", "save the")


def test_cut_short_where_an_array_holds_a_file(path, tmp_path):
    write(tmp_path / "inner", *OLD)
    inner = (tmp_path / "inner").read_bytes()
    write(path, "outer", {}, {"x": np.frombuffer(inner, np.uint8), "y": np.zeros(4)})
    whole = path.read_bytes()
    assert read(path).arrays["x"].tobytes() == inner
    end = whole.index(inner) + len(inner)
    for length in (end, end + 1, end + 50):
        path.write_bytes(whole[:length])
        assert_refused(path, "is cut short")


def test_changed_bytes_of_an_array(old):
    whole = bytearray(old.read_bytes())
    place = whole.index(OLD[2]["weights"].tobytes())
    whole[place] ^= 1
    old.write_bytes(whole)
    words = ["is damaged", "the bytes of weights.npy have changed", "Copy it again"]
    assert_refused(old, *words)


def test_changed_bytes_of_the_manifest(old):
    old.write_bytes(old.read_bytes().replace(b"mixture", b"mixturf"))
    assert_refused(old, "is damaged", "the bytes of fastem.json have changed")


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_no_changed_byte_changes_what_is_read(old, flip):
    whole = old.read_bytes()
    refused = 0
    for place in range(len(whole)):
        old.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
        try:
            assert_old(old)  # a date or a comment, which nothing depends on
        except FileError:
            refused += 1
    assert refused > 0.7 * len(whole)


def test_a_newer_version(path):
    craft(path, json.dumps({"format": "fastem", "version": 2, "new": "ways"}))
    words = ["has format version 2", "knows versions up to 1", "Upgrade fastem"]
    assert_refused(path, *words)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("{", "fastem.json is not JSON"),
        ("\udcff".encode("utf-8", "surrogateescape"), "fastem.json is not JSON"),
        (manifest(version="1"), "no valid version"),
        (manifest(version=0), "no valid version"),
        (manifest(version=True), "no valid version"),
        ('{"format": "fastem", "version": 1}', "lacks its kind or its settings"),
        (manifest(kind=3), "lacks its kind or its settings"),
        (manifest(settings=[]), "lacks its kind or its settings"),
        (manifest(settings={"a": {"float": "many"}}), "lacks its kind or its settings"),
        (manifest(settings={"a": {"dict": 1}}), "lacks its kind or its settings"),
    ],
)
def test_a_broken_manifest(path, said, words):
    craft(path, said)
    assert_refused(path, "is damaged", words)


def header(shape, descr="<f8"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "array 'x' has no valid header"),
        (b"not numpy's", "array 'x' has no valid header"),
        (b"\x93NUMPY\x02\x00", "array 'x' has no valid header"),
        (npy(np.zeros(3))[:-1], "array 'x' is not as long as its shape asks"),
        (npy(np.zeros(3)) + b"\0", "array 'x' is not as long as its shape asks"),
        (header((10**15,)), "array 'x' is not as long as its shape asks"),
        (header((-1, -1)) + bytes(8), "array 'x' is not as long as its shape asks"),
        (header((2**62, 0)), "array 'x' has an impossible shape"),
    ],
)
def test_a_broken_array(path, data, words):
    craft(path, manifest(), [("x.npy", data)])
    assert_refused(path, "is damaged", words)


def test_a_compressed_member_is_refused(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(files.MANIFEST, manifest())
    assert_refused(path, "is damaged", "fastem.json is not stored the way fastem does")


class Bomb:
    """Makes a file, named by the environment, when it is unpickled."""

    def __reduce__(self):
        return exec, ("import os; open(os.environ['BOMB'], 'x').close()",)


def test_nothing_is_unpickled(path, tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    data = npy(np.array([Bomb()], object), allow_pickle=True)
    craft(path, manifest(), [("x.npy", data)])
    assert_refused(path, "array 'x' of dtype object")
    assert not (tmp_path / "exploded").exists()
    # The bomb is a real one.
    np.load(io.BytesIO(data), allow_pickle=True)
    assert (tmp_path / "exploded").exists()


@pytest.mark.parametrize("shape", [(0,), (1,), ()])
def test_an_object_array_is_refused_even_if_its_length_fits(path, shape):
    size = math.prod(shape) * 8
    craft(path, manifest(), [("x.npy", header(shape, "|O") + bytes(size))])
    assert_refused(path, "array 'x' of dtype object", "Use only files that fastem saved")


def test_a_member_that_is_no_array(path):
    craft(path, manifest(), [("x.npy", npy(np.arange(3)))])
    assert read(path).arrays["x"].tolist() == [0, 1, 2]
    craft(path, manifest(), [("notes.txt", b"hello"), ("x.npy", npy(np.arange(3)))])
    assert_refused(path, "is damaged", "notes.txt does not belong in it")


def test_an_array_that_vanished_from_the_table(path):
    write(path, "k", {}, {"x": np.zeros(1), "y": np.ones(1)})
    whole = bytearray(path.read_bytes())
    entry = whole.rindex(b"PK\x01\x02", 0, whole.rindex(b"PK\x01\x02"))  # that of x
    whole[entry + 32] += 51  # the length of its comment now takes in the entry of y
    path.write_bytes(whole)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["fastem.json", "x.npy"]
    assert_refused(path, "is damaged", "its table of arrays is not complete")


def test_more_arrays_than_an_old_zip_counts(path, monkeypatch):
    # As past 65535 members, or 4 GiB: the zip then has a second, longer end.
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    write(path, "k", {}, {"x": np.zeros(1), "y": np.ones(1)})
    assert b"PK\x06\x06" in path.read_bytes()
    assert {name: array.tolist() for name, array in read(path).arrays.items()} == {
        "x": [0.0],
        "y": [1.0],
    }


def test_importing_needs_only_numpy():
    script = """
        import sys
        import fastem.files
        heavy = {"numba", "scipy", "sklearn", "tqdm", "pandas", "matplotlib"}
        print(sorted(heavy & set(sys.modules)))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
