/**
 * Recordings: what is recorded now, which files there are, how much they take, and whether they are uploaded.
 */
import { useEffect, useState } from 'preact/hooks';
import type { RecordedFile, RecordingList, UploadTotals } from '../api/recordings';
import { Command } from '../components/copy';
import { Badge, Empty, Fact, LoadBar, PageHead, Panel } from '../components/pieces';
import { RecordButton } from '../components/recording-actions';
import { RecordingPlayer } from '../components/recording-player';
import { diskTrouble, storageShare, storageWords } from '../components/recording-words';
import { RecordingsTable } from '../components/recordings-table';
import { bytes, count, duration, plural } from '../lib/format';
import { recordingsHref, streamHref } from '../lib/routes';
import { streamKey } from '../lib/urls';
import { useRecordings, useServices, useTitle } from '../state/hooks';
import { FILES_MAX } from '../state/recordings';

const EXAMPLE = `[record]
directory = "/srv/recordings"

[[record.rule]]
stream = "live/*"`;

export function RecordingsPage({ search }: { search: string }) {
  useTitle('Recordings');
  const { recordings } = useServices();
  const { list, uploads, asked } = useRecordings();
  const [played, setPlayed] = useState<RecordedFile | null>(null);
  useEffect(() => recordings.search(search), [recordings, search]);
  useEffect(() => () => recordings.search(''), [recordings]);

  return (
    <>
      <PageHead title="Recordings" />
      {list === null && <p class="muted">{asked ? 'This server has no recordings.' : 'Loading…'}</p>}
      {list !== null && !list.enabled && <Off />}
      {list?.enabled && (
        <>
          <Storage list={list} uploads={uploads} />
          {list.active.length > 0 && <Active list={list} />}
          <Files list={list} search={search} uploads={uploads?.enabled === true} onPlay={setPlayed} />
        </>
      )}
      {played !== null && <RecordingPlayer file={played} onClose={() => setPlayed(null)} />}
    </>
  );
}

function Off() {
  return (
    <Panel title="Files">
      <Empty title="Nothing can be recorded">
        <p>The server’s configuration names no directory for recordings. To record every stream of an application:</p>
        <Command label="millstream.toml" text={EXAMPLE} />
      </Empty>
    </Panel>
  );
}

function Storage({ list, uploads }: { list: RecordingList; uploads: UploadTotals | null }) {
  return (
    <div class="recording-panels">
      <Panel title="Storage">
        <ul class="storage">
          {list.directories.map((directory) => {
            const share = storageShare(directory);
            const trouble = diskTrouble(directory);
            return (
              <li key={directory.path} data-directory={directory.path}>
                <div class="storage-line">
                  <code>{directory.path}</code>
                  <span>{storageWords(directory)}</span>
                </div>
                {share !== null && share >= 1 && (
                  <LoadBar percent={share} label={`Share of the room that recordings in ${directory.path} take`} />
                )}
                {trouble !== '' && (
                  <p class="trouble" role="alert">
                    {trouble}
                  </p>
                )}
                {directory.lost_fragments > 0 && (
                  <p class="sub">
                    {plural(directory.lost_fragments, 'fragment', 'fragments')} lost since the server started
                  </p>
                )}
              </li>
            );
          })}
        </ul>
      </Panel>
      {uploads?.enabled && <Uploads uploads={uploads} />}
    </div>
  );
}

function Uploads({ uploads }: { uploads: UploadTotals }) {
  const state = uploads.failed > 0 ? 'bad' : uploads.waiting + uploads.uploading > 0 ? 'plain' : 'good';
  const reason = uploads.failed > 0 ? uploads.files[0]?.reason : null;
  const words = { bad: 'Failing', plain: 'Sending', good: 'All uploaded' }[state];
  return (
    <Panel title="Uploads" aside={<Badge tone={state} text={words} title={words} />}>
      <dl class="facts" data-testid="uploads">
        <Fact name="Store">
          <code>{uploads.store}</code>
        </Fact>
        <Fact name="Uploaded">{count(uploads.confirmed)}</Fact>
        <Fact name="Under way">{count(uploads.uploading)}</Fact>
        <Fact name="Waiting">{count(uploads.waiting)}</Fact>
        <Fact name="Failed, retried">
          <span class={uploads.failed > 0 ? 'warn' : ''}>{count(uploads.failed)}</span>
        </Fact>
        <Fact name="Not uploaded yet">{bytes(uploads.unconfirmed_bytes)}</Fact>
        {reason && (
          <Fact name="Why">
            <span class="warn">{reason}</span>
          </Fact>
        )}
      </dl>
    </Panel>
  );
}

function Active({ list }: { list: RecordingList }) {
  const since = (text: string) => Math.max(0, (Date.now() - Date.parse(text)) / 1000);
  return (
    <Panel
      title="Recording now"
      aside={<span class="muted">{plural(list.active.length, 'stream', 'streams')}</span>}>
      <table class="table table-active">
        <caption class="offscreen">Recording now</caption>
        <thead>
          <tr>
            <th scope="col">Stream</th>
            <th scope="col">For</th>
            <th scope="col" class="number">
              Written
            </th>
            <th scope="col">Started by</th>
            <th scope="col">
              <span class="offscreen">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {list.active.map((recording) => (
            <tr key={streamKey(recording)} data-active={streamKey(recording)}>
              <td data-label="Stream" class="cell-name">
                <a href={streamHref(recording)} class="stream-name">
                  <span class="stream-app">{recording.app}/</span>
                  {recording.name}
                </a>
              </td>
              <td data-label="For">{duration(since(recording.since))}</td>
              <td data-label="Written" class="number">
                {bytes(recording.bytes)}
                {recording.lost_fragments > 0 && (
                  <span class="sub warn">{plural(recording.lost_fragments, 'fragment', 'fragments')} lost</span>
                )}
              </td>
              <td data-label="Started by">{recording.started_by === 'rule' ? 'a rule' : 'the API'}</td>
              <td class="action">
                <RecordButton stream={recording} recorded small />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

interface FilesProps {
  list: RecordingList;
  search: string;
  uploads: boolean;
  onPlay: (file: RecordedFile) => void;
}

function Files({ list, search, uploads, onPlay }: FilesProps) {
  const { recordings } = useServices();
  const { files, files_total: total } = list;
  const find = (text: string) => {
    history.replaceState(null, '', recordingsHref(text));
    window.dispatchEvent(new HashChangeEvent('hashchange'));
  };
  const isAll = files.length >= Math.min(total, FILES_MAX);
  return (
    <Panel title="Files" aside={<span class="muted">{plural(total, 'file', 'files')}</span>}>
      {(total > 0 || search !== '') && (
        <div class="filters">
          <label class="grow">
            <span class="offscreen">Find streams</span>
            <input
              type="search"
              placeholder="Find streams by name"
              value={search}
              spellcheck={false}
              autocapitalize="none"
              onInput={(event) => find(event.currentTarget.value)}
            />
          </label>
        </div>
      )}
      {total === 0 ? (
        <Empty title={search === '' ? 'No recording yet' : 'No recording of such a stream'}>
          {search === '' && <p>Open a live stream and choose Record, or add a rule to the configuration.</p>}
        </Empty>
      ) : (
        <RecordingsTable files={files} uploads={uploads} onPlay={onPlay} />
      )}
      {!isAll && (
        <div class="pad">
          <button type="button" class="button" onClick={() => recordings.more()}>
            Show more of {count(total)}
          </button>
        </div>
      )}
    </Panel>
  );
}
