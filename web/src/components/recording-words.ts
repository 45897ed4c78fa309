/**
 * What is said of recordings and their uploads, in a few words.
 */
import type { RecordDirectory, RecordedFile, RecordedState, UploadState } from '../api/recordings';
import { bytes, duration, percent } from '../lib/format';
import type { StateWords, Tone } from './source-words';

const STATES: Record<RecordedState, StateWords> = {
  in_progress: { text: 'Recording', tone: 'live', title: 'Being written' },
  unfinished: { text: 'Finishing', tone: 'plain', title: 'Over; its index is being written' },
  complete: { text: 'Complete', tone: 'hollow', title: 'Complete' },
};

const UPLOADS: Record<UploadState, { text: string; tone: Tone | 'good'; title: string }> = {
  waiting: { text: 'Waiting', tone: 'hollow', title: 'Its upload has not begun yet' },
  uploading: { text: 'Uploading', tone: 'plain', title: 'Being sent to the store' },
  confirmed: { text: 'Uploaded', tone: 'good', title: 'The store has confirmed that it has the file' },
  failed: { text: 'Failed', tone: 'bad', title: 'The last attempt failed; there will be another one' },
};

/** A server that is newer than the console may have states that have no words here. */
export function recordedState({ state }: Pick<RecordedFile, 'state'>): StateWords {
  return STATES[state] ?? { text: state, tone: 'plain', title: state };
}

export function uploadState(state: UploadState): (typeof UPLOADS)[UploadState] {
  return UPLOADS[state] ?? { text: state, tone: 'plain', title: state };
}

/** `40 % sent`, `no such bucket, retrying in 12 s`; empty where the state says it all. */
export function uploadWords({ upload, bytes: size }: Pick<RecordedFile, 'upload' | 'bytes'>): string {
  if (upload === null) return '';
  if (upload.state === 'uploading' && upload.sent_bytes !== null && size > 0) {
    return `${percent((100 * upload.sent_bytes) / size)} sent`;
  }
  if (upload.state !== 'failed') return '';
  const retry = upload.retry_in_ms === null ? '' : `retrying in ${duration(Math.ceil(upload.retry_in_ms / 1000))}`;
  return [upload.reason, retry].filter(Boolean).join(', ');
}

/** What is wrong with a disk; empty while nothing is. */
export function diskTrouble(directory: RecordDirectory): string {
  if (directory.failure !== null) return `The disk takes nothing: ${directory.failure}`;
  if (directory.too_slow) return 'The disk is too slow: recordings have gaps.';
  return '';
}

/** `1.2 GB in 14 files`, and what is free. */
export function storageWords(directory: RecordDirectory): string {
  const files = `${bytes(directory.bytes)} in ${directory.files} ${directory.files === 1 ? 'file' : 'files'}`;
  return directory.free_bytes === null ? files : `${files}, ${bytes(directory.free_bytes)} free`;
}

/** Share of the disk that recordings take, of what they could take; null where that is not known. */
export function storageShare(directory: RecordDirectory): number | null {
  if (directory.free_bytes === null) return null;
  const all = directory.bytes + directory.free_bytes;
  return all === 0 ? null : (100 * directory.bytes) / all;
}

/** Name of a downloaded file: that of the stream in front, `live-mill-20261127T190500.123Z.mp4`. */
export function downloadName({ app, name, file }: Pick<RecordedFile, 'app' | 'name' | 'file'>): string {
  return `${app}-${name}-${file}`.replace(/[^\w.]+/g, '-').replace(/^[.-]+/, '');
}

/** Why the console does not play a file; null if it does. */
export function cannotPlay({ state, format }: Pick<RecordedFile, 'state' | 'format'>): string | null {
  if (state !== 'complete') return 'It can be played here when it is complete';
  if (format !== 'mp4') return 'Browsers do not play FLV files: download it';
  return null;
}
