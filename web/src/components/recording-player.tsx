/**
 * A complete recording above the page, played by the browser itself: it asks for the ranges that it needs by a
 * link that carries no token.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { asApiError } from '../api/errors';
import type { RecordedFile } from '../api/recordings';
import { bytes, playTime } from '../lib/format';
import { streamKey } from '../lib/urls';
import { useServices } from '../state/hooks';
import { Icon } from './icons';
import { DownloadButton } from './recording-actions';
import { dayAndTime } from './source-words';

/** A link that fails sooner than this is not too old. */
const LINK_AGE_MS_MIN = 60_000;

export function RecordingPlayer({ file, onClose }: { file: RecordedFile; onClose: () => void }) {
  const { client } = useServices();
  const dialog = useRef<HTMLDialogElement>(null);
  const video = useRef<HTMLVideoElement>(null);
  const linkedAt = useRef(0);
  const [url, setUrl] = useState<string | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const [seconds, setSeconds] = useState(0);
  /** Where a new link goes on. */
  const resume = useRef(0);

  const askForLink = async () => {
    linkedAt.current = performance.now();
    try {
      setUrl((await client.recordingLink(file)).url);
    } catch (cause) {
      setTrouble(asApiError(cause).message);
    }
  };
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    void askForLink();
    return () => element?.close();
  }, []);

  const failed = () => {
    if (url !== null && performance.now() - linkedAt.current > LINK_AGE_MS_MIN) {
      resume.current = video.current?.currentTime ?? 0;
      void askForLink();
      return;
    }
    const unsupported = video.current?.error?.code === MediaError.MEDIA_ERR_SRC_NOT_SUPPORTED;
    setTrouble(
      unsupported
        ? 'This browser cannot play it: the file is gone, or has a codec that it does not know.'
        : 'Playback failed.',
    );
  };
  const key = streamKey(file);
  return (
    <dialog
      ref={dialog}
      class="confirm recording-player"
      aria-labelledby="recording-title"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}>
      <header class="recording-player-head">
        <h2 id="recording-title">
          <span class="stream-app">{file.app}/</span>
          {file.name}
        </h2>
        <button type="button" class="button button-small" onClick={onClose} aria-label="Close the player">
          <Icon name="close" size={16} />
        </button>
      </header>
      {trouble === null ? (
        <video
          ref={video}
          class="recording-video"
          aria-label={`Recording of ${key}`}
          src={url ?? undefined}
          controls
          autoplay
          playsInline
          onError={failed}
          onLoadedMetadata={(event) => {
            if (resume.current > 0) event.currentTarget.currentTime = resume.current;
          }}
          onTimeUpdate={(event) => setSeconds(event.currentTarget.currentTime)}
        />
      ) : (
        <p class="trouble" role="alert">
          {trouble}
        </p>
      )}
      <div class="recording-player-foot">
        <p class="muted">
          Recorded <span data-testid="wall-clock">{dayAndTime(file.start_ms + 1000 * seconds, Date.now())}</span>
          {' · '}
          {playTime(file.duration_ms)} · {bytes(file.bytes)}
        </p>
        <DownloadButton file={file} />
      </div>
    </dialog>
  );
}
