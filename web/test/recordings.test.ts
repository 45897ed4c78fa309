/** Recordings: what is said of them, what is asked for them, and when. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ApiClient } from '../src/api/client';
import type { RecordDirectory, RecordedFile } from '../src/api/recordings';
import {
  cannotPlay,
  diskTrouble,
  downloadName,
  recordedState,
  storageShare,
  storageWords,
  uploadState,
  uploadWords,
} from '../src/components/recording-words';
import { FILES_LISTED, RecordingsState } from '../src/state/recordings';
import { aRecordedFile, aRecordingList } from './samples';

const directory = (change: Partial<RecordDirectory> = {}): RecordDirectory => ({
  ...aRecordingList().directories[0]!,
  ...change,
});

describe('words of recordings', () => {
  it('says how much they take, and of how much', () => {
    expect(storageWords(directory({ bytes: 1_250_000, files: 1, free_bytes: null }))).toBe('1.25\u00a0MB in 1 file');
    const known = directory({ bytes: 1e9, files: 14, free_bytes: 3e9 });
    expect(storageWords(known)).toBe('1.00\u00a0GB in 14 files, 3.00\u00a0GB free');
    expect(storageShare(known)).toBe(25);
    expect(storageShare(directory({ free_bytes: null }))).toBeNull();
    expect(storageShare(directory({ bytes: 0, free_bytes: 0 }))).toBeNull();
  });

  it('says what is wrong with a disk, the worst first', () => {
    expect(diskTrouble(directory())).toBe('');
    expect(diskTrouble(directory({ too_slow: true }))).toContain('gaps');
    expect(diskTrouble(directory({ too_slow: true, failure: 'no space' }))).toBe('The disk takes nothing: no space');
  });

  it('says how far an upload is, and why it failed', () => {
    const upload = (change: Partial<NonNullable<RecordedFile['upload']>>) =>
      uploadWords({
        bytes: 1000,
        upload: { state: 'waiting', sent_bytes: null, reason: null, retry_in_ms: null, ...change },
      });
    expect(uploadWords({ bytes: 1, upload: null })).toBe('');
    expect(upload({})).toBe('');
    expect(upload({ state: 'uploading', sent_bytes: 400 })).toBe('40\u00a0% sent');
    expect(upload({ state: 'failed', reason: 'no such bucket', retry_in_ms: 11_200 })).toBe(
      'no such bucket, retrying in 12\u00a0s',
    );
  });

  it('has words for states that it does not know', () => {
    expect(recordedState({ state: 'odd' as 'complete' }).text).toBe('odd');
    expect(uploadState('odd' as 'failed').text).toBe('odd');
  });

  it('plays what is complete and what browsers know', () => {
    expect(cannotPlay(aRecordedFile())).toBeNull();
    expect(cannotPlay(aRecordedFile({ state: 'unfinished' }))).toContain('complete');
    expect(cannotPlay(aRecordedFile({ format: 'flv' }))).toContain('FLV');
  });

  it('names a download by its stream, whatever that is called', () => {
    expect(downloadName({ app: 'live', name: 'mill', file: 'a.mp4' })).toBe('live-mill-a.mp4');
    expect(downloadName({ app: '../x', name: 'a b/ü', file: 'a.mp4' })).toBe('x-a-b-a.mp4');
  });
});

describe('requests', () => {
  const asked: { url: string; method: string | undefined }[] = [];
  const api = (answer: unknown, status = 200) =>
    new ApiClient({
      fetch: (async (url: string, init: RequestInit) => {
        asked.push({ url, method: init.method });
        return new Response(status === 204 ? null : JSON.stringify(answer), { status });
      }) as typeof fetch,
    });
  beforeEach(() => {
    asked.length = 0;
  });

  it('encodes the names of a file, and asks for a link by POST', async () => {
    const file = { app: 'a/b', name: 'c d', file: 'x.mp4' };
    const link = await api({ url: '/api/v1/x?signature=s', valid_seconds: 60 }).recordingLink(file);
    expect(link.url).toBe('/api/v1/x?signature=s');
    expect(asked).toEqual([{ url: '/api/v1/recordings/a%2Fb/c%20d/x.mp4/link', method: 'POST' }]);
    await api(null, 204).removeRecording(file);
    expect(asked[1]).toEqual({ url: '/api/v1/recordings/a%2Fb/c%20d/x.mp4', method: 'DELETE' });
    await api(null, 204).stopRecording(file);
    expect(asked[2]).toEqual({ url: '/api/v1/recordings/a%2Fb/c%20d', method: 'DELETE' });
  });

  it('asks only for what it lists', async () => {
    await api(aRecordingList()).recordings({ search: 'a b', limit: 5 });
    expect(asked[0]?.url).toBe('/api/v1/recordings?search=a+b&limit=5');
    expect(await api({ error: {} }, 404).recordings({})).toBeNull();
  });
});

describe('the list', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('is asked for while it is shown, again at once for another search, and further files on request', async () => {
    const recordings = vi.fn(async () => aRecordingList());
    const uploads = vi.fn(async () => null);
    const state = new RecordingsState({ recordings, uploads });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(recordings).not.toHaveBeenCalled();
    const hide = state.use();
    await vi.advanceTimersByTimeAsync(0);
    expect(state.store.value).toMatchObject({ asked: true, uploads: null });
    expect(recordings).toHaveBeenLastCalledWith({ search: '', limit: FILES_LISTED }, expect.anything());
    await vi.advanceTimersByTimeAsync(2_000);
    expect(recordings).toHaveBeenCalledTimes(2);
    state.more();
    expect(recordings).toHaveBeenLastCalledWith({ search: '', limit: 2 * FILES_LISTED }, expect.anything());
    state.search('mill');
    expect(recordings).toHaveBeenLastCalledWith({ search: 'mill', limit: FILES_LISTED }, expect.anything());
    hide();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(recordings).toHaveBeenCalledTimes(4);
  });
});
