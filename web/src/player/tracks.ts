/**
 * Which tracks to tell the demuxer to expect.
 *
 * An FLV header may announce a track that never comes, and the demuxer would wait for it for ever. Three
 * sources help: what the server reports (hints), what the metadata names, and, when all else fails, trying.
 */

/** Null leaves it to the FLV header. */
export interface TrackHints {
  hasAudio: boolean | null;
  hasVideo: boolean | null;
}

export const UNKNOWN_TRACKS: TrackHints = { hasAudio: null, hasVideo: null };

const GUESSES: readonly TrackHints[] = [
  { hasAudio: false, hasVideo: true },
  { hasAudio: true, hasVideo: false },
  UNKNOWN_TRACKS,
];

export class Tracks {
  /** Found present or missing, by metadata or by trying; stronger than hints. */
  #learned = UNKNOWN_TRACKS;
  /** What the present connection was opened for. */
  #opened = UNKNOWN_TRACKS;
  /** What the metadata of the present connection names. */
  #announced = UNKNOWN_TRACKS;
  #guesses = 0;

  /** What to open the next connection for. */
  open(hints: TrackHints): TrackHints {
    this.#announced = UNKNOWN_TRACKS;
    this.#opened = {
      hasAudio: this.#learned.hasAudio ?? hints.hasAudio,
      hasVideo: this.#learned.hasVideo ?? hints.hasVideo,
    };
    return this.#opened;
  }

  /**
   * Takes note of `onMetaData`. True if it names a track that this connection was opened without, as when a
   * new publisher brings audio: then open again. A track that is not named is no proof that it is missing.
   */
  announce(metadata: Record<string, unknown>): boolean {
    const hasVideo = 'videocodecid' in metadata || 'width' in metadata;
    const hasAudio = 'audiocodecid' in metadata || 'audiosamplerate' in metadata;
    this.#announced = { hasAudio, hasVideo };
    const added =
      (hasAudio && this.#opened.hasAudio === false) || (hasVideo && this.#opened.hasVideo === false);
    if (!added || this.#guesses > 0) return false;
    this.#learned = this.#announced;
    return true;
  }

  /**
   * Nothing can be shown for a moment although data came. True if the metadata names one track only and this
   * connection waits for the other as well: then open again.
   */
  suspectMissing(): boolean {
    const { hasAudio, hasVideo } = this.#announced;
    if (hasAudio === hasVideo || this.#guesses > 0) return false;
    const other = hasAudio ? this.#opened.hasVideo : this.#opened.hasAudio;
    if (other === false) return false;
    this.#learned = this.#announced;
    return true;
  }

  /** Nothing could be shown for long: leave out one track after the other, then begin again. */
  guess(): void {
    this.#learned = GUESSES[this.#guesses % GUESSES.length] ?? UNKNOWN_TRACKS;
    this.#guesses += 1;
  }
}
