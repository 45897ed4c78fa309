//! One attempt to bring a file to the store.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path as FilePath, PathBuf};

use bytes::Bytes;
use object_store::path::Path;
use sha2::{Digest, Sha256};

use crate::journal::{FileIdentity, Multipart};
use crate::scan;
use crate::status::{Cause, Failure};
use crate::store::{Object, hex};
use crate::table::FileKey;
use crate::thread::Shared;

/// Bytes read at a time for the hash.
const READ_BYTES: usize = 256 * 1024;
/// Parts that S3 takes of one object.
const PARTS_MAX: u64 = 10_000;

/// How an attempt ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The store has taken it.
    Sent(FileIdentity),
    /// The store had it.
    AlreadyThere(FileIdentity),
    /// There is no such file any more.
    Gone,
}

/// Brings a file to the store, and returns when the store has said that it has it.
pub(crate) async fn send(shared: &Shared, key: &FileKey) -> Result<Outcome, Failure> {
    let directory = &shared.directories[key.directory];
    let (store, local) = (&shared.store, directory.path.join(&*key.path));
    let Some(file) = identity_of(&local)? else { return Ok(Outcome::Gone) };
    let object = store.key(&key.path)?;

    // The hash is read once per file, also over restarts.
    let known = directory.journal().get(&key.path).filter(|known| known.file == file).cloned();
    let sha256 = match &known {
        Some(known) => known.sha256.clone(),
        None => {
            let sha256 = hash_of(&local).await?;
            let stale = directory.journal().get(&key.path).and_then(|known| known.multipart.clone());
            if let Some(stale) = stale.filter(|_| store.resumes()) {
                // Of a file that had this name before; if the store does not answer, its bucket cleans up.
                let _ = store.abort(&object, &stale.upload).await;
            }
            directory.journal().begin(&key.path, file, &sha256, None);
            sha256
        }
    };

    if let Some(there) = store.head(&object).await? {
        check_same(shared, &object, &there, file, &sha256).await?;
        return Ok(Outcome::AlreadyThere(file));
    }
    let part_bytes = (shared.settings.part_bytes as u64).max(file.bytes.div_ceil(PARTS_MAX));
    let e_tag = if file.bytes <= part_bytes {
        let content = read_part(&local, 0, file.bytes).await?;
        let e_tag = store.put(&object, content, &sha256).await?;
        shared.table().sent(key, file.bytes);
        e_tag
    } else if store.resumes() {
        let known = known.and_then(|known| known.multipart);
        send_parts(shared, key, &object, (&local, file), &sha256, (known, part_bytes)).await?
    } else {
        copy_parts(shared, key, &object, (&local, file), part_bytes).await?;
        None
    };

    // Put is a promise, and HEAD shows that it was kept.
    let Some(there) = store.head(&object).await? else {
        return Err(Failure::new(Cause::Unconfirmed, "the object is not there after it was sent"));
    };
    let is_as_sent = there.bytes == file.bytes
        && match &there.sha256 {
            Some(hash) => *hash == sha256,
            // A store without metadata: it must be the object that was put. A directory has neither.
            None if store.resumes() => e_tag.is_some() && there.e_tag == e_tag,
            None => store.read_hash(&object).await? == sha256,
        };
    if !is_as_sent {
        return Err(Failure::new(Cause::Unconfirmed, "the object is not what was sent"));
    }
    if identity_of(&local)?.is_some_and(|now| now != file) {
        return Err(Failure::new(Cause::File, "the file has changed while it was sent"));
    }
    Ok(Outcome::Sent(file))
}

/// Fails unless the object that is there has the content of the file.
async fn check_same(
    shared: &Shared,
    object: &Path,
    there: &Object,
    file: FileIdentity,
    sha256: &str,
) -> Result<(), Failure> {
    let is_same = there.bytes == file.bytes
        && match &there.sha256 {
            Some(hash) => hash == sha256,
            None => shared.store.read_hash(object).await? == sha256,
        };
    if is_same {
        return Ok(());
    }
    let why = format!("another object has the key {object}; it is not overwritten: remove one of them");
    Err(Failure::new(Cause::Conflict, why))
}

/// Sends a large file in parts that the journal knows, so that the next attempt goes on with the next one.
async fn send_parts(
    shared: &Shared,
    key: &FileKey,
    object: &Path,
    (local, file): (&FilePath, FileIdentity),
    sha256: &str,
    (known, part_bytes): (Option<Multipart>, u64),
) -> Result<Option<String>, Failure> {
    let (store, directory) = (&shared.store, &shared.directories[key.directory]);
    let part_bytes = known.as_ref().map_or(part_bytes, |known| known.part_bytes as u64);
    let multipart = match known {
        Some(known) => {
            let bytes = (known.parts.len() as u64 * part_bytes).min(file.bytes);
            shared.table().resumed(key, bytes);
            known
        }
        None => {
            let upload = store.begin(object, sha256).await?;
            let begun = Multipart { upload, part_bytes: part_bytes as usize, parts: BTreeMap::new() };
            directory.journal().begin(&key.path, file, sha256, Some(begun.clone()));
            begun
        }
    };
    let sent = async {
        let mut parts = multipart.parts;
        let count = usize::try_from(file.bytes.div_ceil(part_bytes)).unwrap_or(usize::MAX);
        for index in 0..count {
            if parts.contains_key(&index) {
                continue;
            }
            let at = index as u64 * part_bytes;
            let content = read_part(local, at, part_bytes.min(file.bytes - at)).await?;
            let bytes = content.len() as u64;
            let e_tag = store.put_part(object, &multipart.upload, index, content).await?;
            directory.journal().part(&key.path, &multipart.upload, index, &e_tag);
            parts.insert(index, e_tag);
            shared.table().sent(key, bytes);
        }
        // Completing takes no condition: the last look is right before it.
        if let Some(there) = store.head(object).await? {
            check_same(shared, object, &there, file, sha256).await?;
            return Ok(there.e_tag);
        }
        store.complete(object, &multipart.upload, parts.values()).await
    };
    let sent = sent.await;
    if let Err(failure) = &sent
        && matches!(failure.cause, Cause::Missing | Cause::Refused | Cause::Conflict)
    {
        // The store does not know the upload any more, or not these parts: the next attempt begins another.
        let _ = store.abort(object, &multipart.upload).await;
        directory.journal().begin(&key.path, file, sha256, None);
    }
    sent
}

/// Copies a large file to a directory, where it gets its name when it is complete.
async fn copy_parts(
    shared: &Shared,
    key: &FileKey,
    object: &Path,
    (local, file): (&FilePath, FileIdentity),
    part_bytes: u64,
) -> Result<(), Failure> {
    let store = &shared.store;
    let mut copy = store.copy(object).await?;
    let copied = async {
        let mut at = 0;
        while at < file.bytes {
            let content = read_part(local, at, part_bytes.min(file.bytes - at)).await?;
            let bytes = content.len() as u64;
            copy.put_part(content.into()).await.map_err(|error| store.explain(&error))?;
            at += bytes;
            shared.table().sent(key, bytes);
        }
        copy.complete().await.map_err(|error| store.explain(&error))
    };
    let copied = copied.await;
    if copied.is_err() {
        // What it has written by then is of no use.
        let _ = copy.abort().await;
    }
    copied.map(|_| ())
}

fn identity_of(local: &FilePath) -> Result<Option<FileIdentity>, Failure> {
    match std::fs::metadata(local) {
        Ok(metadata) => Ok(Some(scan::identity(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(&error)),
    }
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::new(Cause::File, format!("the file cannot be read: {error}"))
}

async fn hash_of(local: &FilePath) -> Result<String, Failure> {
    let hash = move |local: PathBuf| {
        let (mut file, mut hash) = (File::open(local)?, Sha256::new());
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hex(&hash.finalize())),
                bytes => hash.update(&buffer[..bytes]),
            }
        }
    };
    blocking(local, hash).await
}

async fn read_part(local: &FilePath, at: u64, bytes: u64) -> Result<Bytes, Failure> {
    let read = move |local: PathBuf| {
        let mut content = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        File::open(local)?.read_exact_at(&mut content, at)?;
        Ok(content.into())
    };
    blocking(local, read).await
}

/// Reads on a thread that may wait for the disk.
async fn blocking<T: Send + 'static>(
    local: &FilePath,
    read: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let local = local.to_owned();
    let read = tokio::task::spawn_blocking(move || read(local)).await;
    read.map_err(io::Error::other).flatten().map_err(|error| unreadable(&error))
}
