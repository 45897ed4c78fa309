/**
 * Shapes of recordings and of their uploads.
 *
 * As documented in `/api/v1/openapi.json`.
 */

export interface RecordingList {
  /** Whether a directory is configured. */
  enabled: boolean;
  /** Streams that are recorded at present. */
  active: ActiveRecording[];
  directories: RecordDirectory[];
  /** The newest first. */
  files: RecordedFile[];
  /** Files that match, those beyond the limit included. */
  files_total: number;
}

export interface ActiveRecording {
  app: string;
  name: string;
  started_by: 'rule' | 'api';
  /** RFC 3339. */
  since: string;
  directory: string;
  format: string;
  bytes: number;
  fragments: number;
  /** Left out because the disk was too slow, or refused them. Each gap begins a new file. */
  lost_fragments: number;
  files: number;
}

export interface RecordDirectory {
  path: string;
  /** Why the disk takes nothing at present. */
  failure: string | null;
  /** The disk is too slow at present, so recordings have gaps. */
  too_slow: boolean;
  queued_bytes: number;
  files: number;
  bytes: number;
  /** What its file system has left. */
  free_bytes: number | null;
  lost_fragments: number;
}

/** `unfinished`: over, and completed soon. */
export type RecordedState = 'in_progress' | 'unfinished' | 'complete';

/** `failed`: it is tried again. */
export type UploadState = 'waiting' | 'uploading' | 'confirmed' | 'failed';

export interface RecordedFile {
  app: string;
  name: string;
  /** Its name once it is complete. */
  file: string;
  path: string;
  directory: string;
  state: RecordedState;
  /** Wall clock of its begin, RFC 3339. */
  start: string;
  start_ms: number;
  duration_ms: number | null;
  bytes: number;
  format: string;
  /** Null: it is not sent anywhere, or not yet. */
  upload: FileUpload | null;
}

export interface FileUpload {
  state: UploadState;
  sent_bytes: number | null;
  reason: string | null;
  retry_in_ms: number | null;
}

/** Totals of all files, and the one that most needs a look. */
export interface UploadTotals {
  enabled: boolean;
  store: string | null;
  waiting: number;
  uploading: number;
  confirmed: number;
  failed: number;
  unconfirmed_bytes: number;
  journal_failing: boolean;
  /** One at most: one that failed, if any has. */
  files: { reason: string | null }[];
}

/** Which files to list. */
export interface RecordingQuery {
  /** Part of `app/name`. */
  search?: string;
  limit?: number;
}

/** A file of a stream. */
export interface RecordingRef {
  app: string;
  name: string;
  file: string;
}
