/**
 * What to do while nothing is published: one command that makes a first picture.
 */
import { ffmpegTestCommand, publishBases, publishTarget } from '../lib/urls';
import { useSnapshot } from '../state/hooks';
import { Command } from './copy';
import { Empty } from './pieces';

export function NoStreams() {
  const { server } = useSnapshot();
  const [base = ''] = publishBases(server?.endpoints ?? null, location.hostname);
  const { url } = publishTarget(base, { app: 'live', name: 'test' }, '');
  return (
    <Empty title="Nothing is on air yet">
      <p>
        Paste this into a terminal on the server for a first picture, or see{' '}
        <a href="#/publish">how to publish</a> with OBS or your own material.
      </p>
      <Command label="Test picture with ffmpeg" text={ffmpegTestCommand(url)} />
    </Empty>
  );
}
