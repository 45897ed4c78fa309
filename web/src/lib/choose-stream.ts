/**
 * Which stream the overview shows when nobody has chosen one.
 */
import type { Stream } from '../api/types';
import { streamKey } from './urls';

/**
 * The one asked for if it exists; else the one already shown while it lives (pictures should not jump
 * around); else the demo channel; else the live stream with most players; else nothing.
 */
export function chooseStream(
  streams: readonly Stream[],
  asked: string | null,
  shown: string | null,
  demo: string | null,
): Stream | null {
  const find = (key: string | null) => streams.find((stream) => streamKey(stream) === key) ?? null;
  const live = (stream: Stream | null) => (stream?.state === 'live' ? stream : null);
  const busiest = streams
    .filter((stream) => stream.state === 'live')
    .reduce<Stream | null>(
      (best, stream) => (best === null || stream.players > best.players ? stream : best),
      null,
    );
  return find(asked) ?? live(find(shown)) ?? live(find(demo)) ?? busiest;
}
