"""The file system as fsspec and programs over it use it, against a server on loopback."""

import pickle

import pytest
from test_range_file import CONTENT, Origin, origin  # noqa: F401

fsspec = pytest.importorskip("fsspec")


def of(origin: Origin, path: str = "/film") -> str:  # noqa: F811
    return "range+" + origin.url(path)


def test_open_finds_the_file_system_by_the_name_in_the_url(origin: Origin) -> None:  # noqa: F811
    with fsspec.open(of(origin), any_address=True) as file:
        file.seek(1_000_000)
        assert file.read(1000) == CONTENT[1_000_000:1_001_000]
        assert file.size == len(CONTENT)
        assert file.counters["requests"] == 1


def test_options_reach_the_file(origin: Origin) -> None:  # noqa: F811
    with pytest.raises(PermissionError):
        fsspec.open(of(origin)).open().read(1)


def test_pieces_of_a_file_are_asked_for_together(origin: Origin) -> None:  # noqa: F811
    files = fsspec.filesystem("range+http", any_address=True)
    starts = [900_000, 0, 1_499_990, 100_000]
    ends = [start + 1000 for start in starts]
    pieces = files.cat_ranges([of(origin)] * 4, starts, ends)
    assert pieces == [CONTENT[start:end] for start, end in zip(starts, ends, strict=True)]
    first = origin.requests[0]
    assert first.count(",") == 3, "one request of four ranges"
    assert files.cat_file(of(origin), 10, 20) == CONTENT[10:20]
    assert files.cat_file(of(origin), -10) == CONTENT[-10:]
    assert files.cat(of(origin)) == CONTENT


def test_what_is_not_there_and_what_is_not_supported(origin: Origin) -> None:  # noqa: F811
    files = fsspec.filesystem("range+http", any_address=True)
    assert files.exists(of(origin)) and files.isfile(of(origin))
    assert not files.exists(of(origin, "/missing"))
    assert files.info(of(origin))["size"] == len(CONTENT)
    assert files.ls(of(origin), detail=False) == [origin.url()]
    [error] = files.cat_ranges([of(origin, "/missing")], 0, 10)
    assert isinstance(error, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        files.cat_ranges([of(origin, "/missing")], [0], [10], on_error="raise")
    with pytest.raises(NotImplementedError):
        files.open(of(origin), "wb")


def test_a_file_system_can_be_sent_to_another_process(origin: Origin) -> None:  # noqa: F811
    files = fsspec.filesystem("range+http", any_address=True)
    again = pickle.loads(pickle.dumps(files))
    assert again.cat_file(of(origin), 0, 100) == CONTENT[:100]
    assert fsspec.open(of(origin), "rt", encoding="latin-1", any_address=True).open().read(3) is not None


def test_a_remote_archive_through_a_chain_of_file_systems(origin: Origin) -> None:  # noqa: F811
    import io
    import zipfile

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("one.txt", "hello")
        writer.writestr("big.bin", CONTENT)
    origin.content = archive.getvalue()
    chain = "zip://one.txt::" + of(origin)
    options = {"range+http": {"any_address": True}}
    with fsspec.open(chain, **options) as member:
        assert member.read() == b"hello"
