/**
 * Which codecs to offer: what this browser has, ordered by the person's choice.
 */

/** Video codecs one can choose, by the name in their MIME type. */
export const VIDEO_CODECS = [
  { id: 'H264', text: 'H.264', remark: 'plays everywhere' },
  { id: 'VP8', text: 'VP8', remark: '' },
  { id: 'VP9', text: 'VP9', remark: 'a third fewer bits than H.264, more processor time' },
  { id: 'AV1', text: 'AV1', remark: 'half the bits of H.264, most processor time' },
  { id: 'H265', text: 'H.265', remark: 'where the hardware has it' },
] as const;

export type VideoCodec = (typeof VIDEO_CODECS)[number]['id'];

/** The part of a capability that is looked at. */
export interface Capability {
  mimeType: string;
  sdpFmtpLine?: string;
}

/** Formats that carry others: offered whatever codec is chosen, or lost packets could not be sent again. */
const HELPERS = /^video\/(rtx|red|ulpfec|flexfec-03)$/i;

/** Ids of `VIDEO_CODECS` that occur in `capabilities`. */
export function usableCodecs(capabilities: readonly Capability[]): VideoCodec[] {
  const names = new Set(capabilities.map(({ mimeType }) => mimeType.toLowerCase()));
  return VIDEO_CODECS.map(({ id }) => id).filter((id) => names.has(`video/${id.toLowerCase()}`));
}

/**
 * Capabilities in the order in which to offer them: only the chosen codec and the helpers, or, without a
 * choice, H.264 first, because every player has it. Of H.264's forms the one with fragmentation
 * (`packetization-mode=1`) goes first.
 */
export function preferredCodecs<C extends Capability>(
  capabilities: readonly C[],
  choice: VideoCodec | 'auto',
): C[] {
  const wanted = `video/${choice === 'auto' ? 'H264' : choice}`.toLowerCase();
  const is = (capability: C) => capability.mimeType.toLowerCase() === wanted;
  const fragments = (capability: C) => !/packetization-mode=0/.test(capability.sdpFmtpLine ?? '');
  const chosen = capabilities.filter(is);
  const first = [...chosen.filter(fragments), ...chosen.filter((capability) => !fragments(capability))];
  const others = capabilities.filter((capability) => !is(capability) && !HELPERS.test(capability.mimeType));
  const helpers = capabilities.filter((capability) => HELPERS.test(capability.mimeType));
  if (first.length === 0) return [...capabilities];
  return choice === 'auto' ? [...first, ...others, ...helpers] : [...first, ...helpers];
}

interface ExtensionEntry {
  uri: string;
  direction: RTCRtpTransceiverDirection;
}

/** Not in TypeScript's library yet, nor in every browser. */
interface WithExtensions {
  getHeaderExtensionsToNegotiate?: () => ExtensionEntry[];
  setHeaderExtensionsToNegotiate?: (entries: ExtensionEntry[]) => void;
}

/** Carries the moment of capture with the frames; off unless asked for. */
const CAPTURE_TIME = 'http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time';

/** Says which frames of AV1 are of which layer: without it no more than the smallest pictures can be played. */
const DEPENDENCIES =
  'https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension';

/** Asks for capture times and layers on this track, where the browser can. */
export function wantExtensions(transceiver: RTCRtpTransceiver): void {
  const able = transceiver as unknown as WithExtensions;
  const entries = able.getHeaderExtensionsToNegotiate?.();
  if (entries === undefined || able.setHeaderExtensionsToNegotiate === undefined) return;
  const wanted = entries.filter(({ uri }) => uri === CAPTURE_TIME || uri === DEPENDENCIES);
  if (wanted.length === 0) return;
  for (const entry of wanted) entry.direction = 'sendrecv';
  try {
    able.setHeaderExtensionsToNegotiate(entries);
  } catch {
    // A figure less, and fewer layers.
  }
}
