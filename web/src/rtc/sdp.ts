/**
 * The few things that have to be read from or changed in session descriptions as text. Everything else is the
 * browser's.
 */

export interface IceCredentials {
  ufrag: string;
  password: string;
}

/** What a trickle fragment says (RFC 8840 §4): candidates of the bundle's first section. */
export interface Fragment extends IceCredentials {
  /** Candidate attributes without `a=`. */
  candidates: string[];
  end: boolean;
}

/** The first value of attribute `name`; null when there is none. */
export function attribute(sdp: string, name: string): string | null {
  return new RegExp(`^a=${name}(?::(.*?))?\\r?$`, 'm').exec(sdp)?.slice(1)[0] ?? null;
}

export function hasFlag(sdp: string, name: string): boolean {
  return new RegExp(`^a=${name}\\r?$`, 'm').test(sdp);
}

export function iceCredentials(sdp: string): IceCredentials | null {
  const ufrag = attribute(sdp, 'ice-ufrag');
  const password = attribute(sdp, 'ice-pwd');
  return ufrag === null || password === null ? null : { ufrag, password };
}

/** Body of a `PATCH` with candidates (RFC 9725 §4.3.1). `offer` lends the first media line and its mid. */
export function writeFragment(offer: string, fragment: Fragment): string {
  const media = /^m=.*$/m.exec(offer)?.[0].trimEnd() ?? 'm=audio 9 UDP/TLS/RTP/SAVPF 0';
  const lines = [
    `a=ice-ufrag:${fragment.ufrag}`,
    `a=ice-pwd:${fragment.password}`,
    media,
    `a=mid:${attribute(offer, 'mid') ?? '0'}`,
  ];
  lines.push(...fragment.candidates.map((candidate) => `a=${candidate}`));
  if (fragment.end) lines.push('a=end-of-candidates');
  return `${lines.join('\r\n')}\r\n`;
}

/** Reads the fragment a server answers to an ICE restart; null when it has no credentials. */
export function readFragment(text: string): Fragment | null {
  const credentials = iceCredentials(text);
  if (credentials === null) return null;
  const candidates = [...text.matchAll(/^a=(candidate:.*?)\r?$/gm)].map((match) => match[1] ?? '');
  return { ...credentials, candidates, end: hasFlag(text, 'end-of-candidates') };
}

/**
 * The answer as it would read after an ICE restart: the fragment's credentials everywhere, and its
 * candidates, when it has some, instead of the old ones.
 */
export function withFragment(answer: string, fragment: Fragment): string {
  let out = answer
    .replace(/^a=ice-ufrag:.*?(\r?)$/gm, `a=ice-ufrag:${fragment.ufrag}$1`)
    .replace(/^a=ice-pwd:.*?(\r?)$/gm, `a=ice-pwd:${fragment.password}$1`);
  if (fragment.candidates.length === 0) return out;
  out = out.replace(/^a=(candidate:.*|end-of-candidates)\r?\n/gm, '');
  // Candidates belong to the first section; the others are bundled with it.
  const lines = fragment.candidates.map((candidate) => `a=${candidate}\r\n`).join('');
  return out.replace(/^(a=ice-pwd:.*?\r?\n)/m, (line) => line + lines);
}

/** Asks for stereo Opus: without it browsers fold both channels into one, whatever is sent. */
export function withStereo(sdp: string): string {
  const type = /^a=rtpmap:(\d+) opus\/48000\/2\r?$/im.exec(sdp)?.[1];
  if (type === undefined) return sdp;
  return sdp.replace(new RegExp(`^(a=fmtp:${type} .*?)(\\r?)$`, 'm'), (line, formats: string, end: string) =>
    /\bstereo=/.test(line) ? line : `${formats};stereo=1;sprop-stereo=1${end}`,
  );
}

/**
 * Tells Chromium what to begin with; it would start at 300 kbit/s and a small picture, and take half a minute
 * to grow. Other browsers pass over it. Goes into the answer, for every codec of the video section.
 */
export function withStartBitrate(answer: string, bitsPerSecond: number): string {
  const parameter = `x-google-start-bitrate=${Math.round(bitsPerSecond / 1_000)}`;
  const [head = '', ...sections] = answer.split(/^(?=m=)/m);
  const changed = sections.map((section) =>
    section.startsWith('m=video') ? withParameter(section, parameter) : section,
  );
  return head + changed.join('');
}

function withParameter(section: string, parameter: string): string {
  const types = [...section.matchAll(/^a=rtpmap:(\d+) (?!rtx|red|ulpfec|flexfec)/gim)].map(
    (match) => match[1] ?? '',
  );
  return types.reduce((text, type) => {
    const formats = new RegExp(`^(a=fmtp:${type} .*?)(\\r?)$`, 'm');
    if (formats.test(text)) return text.replace(formats, `$1;${parameter}$2`);
    return text.replace(
      new RegExp(`^(a=rtpmap:${type} .*?)(\\r?\\n)`, 'm'),
      `$1$2a=fmtp:${type} ${parameter}$2`,
    );
  }, section);
}
