/**
 * Figures of a WebRTC connection from `getStats`: rates over a short window, in units people read.
 *
 * The browser counts from the beginning of the connection; a figure for "now" is the difference between two
 * reports. Which fields exist differs between browsers, so each is null when it cannot be had.
 */

export interface TrackFigures {
  kind: 'audio' | 'video';
  /** `H.264`, `Opus`: without parameters. */
  codec: string | null;
  bitsPerSecond: number | null;
  packets: number;
  lostPackets: number;
  /** Of the packets of the window, before retransmission for video that is received. */
  lossPercent: number | null;
  jitterMs: number | null;
  width: number;
  height: number;
  framesPerSecond: number | null;
  /** Decoded when playing, encoded when publishing. */
  frames: number;
  framesDropped: number;
  keyFrames: number;
  /** Mean over the window: wait in the jitter buffer. Only when playing. */
  bufferMs: number | null;
  /** Mean over the window: decoding or encoding one frame. */
  codingMs: number | null;
  freezes: number;
  nacks: number;
  keyFrameRequests: number;
  retransmitted: number;
  /** Samples made up to cover gaps, of all samples of the window. Only audio that is played. */
  concealedPercent: number | null;
  /** 0..1; only audio that is played. */
  energy: number;
  /** `cpu`, `bandwidth` or `other` when the encoder has to do less than asked. */
  limitedBy: string | null;
  targetBitsPerSecond: number | null;
}

export interface ConnectionFigures {
  video: TrackFigures | null;
  audio: TrackFigures | null;
  bitsPerSecond: number | null;
  roundTripMs: number | null;
  /** What congestion control believes can be sent. Only when publishing. */
  availableBitsPerSecond: number | null;
  /** `udp` or `tcp`; `relay` when through a TURN server. */
  path: string | null;
  /** `1.2` or `1.3`. */
  dtls: string | null;
  /** Name of the SRTP profile as the browser gives it. */
  srtp: string | null;
}

type Report = Record<string, unknown>;

interface Moment {
  atMs: number;
  reports: Map<string, Report>;
}

/** Rates are taken over this many milliseconds. */
const WINDOW_MS = 3_000;
const MOMENTS_MAX = 16;

export class FiguresSampler {
  #moments: Moment[] = [];

  /**
   * Takes the reports of one `getStats` call. Reports of another connection, whose ids differ, start over.
   */
  sample(stats: Iterable<readonly [string, unknown]>, nowMs: number): ConnectionFigures {
    const reports = new Map([...stats].map(([id, report]) => [id, report as Report]));
    this.#moments.push({ atMs: nowMs, reports });
    while (
      this.#moments.length > MOMENTS_MAX ||
      (this.#moments.length > 2 && (this.#moments[1]?.atMs ?? nowMs) <= nowMs - WINDOW_MS)
    ) {
      this.#moments.shift();
    }
    const tracks = [...reports.values()].filter(
      (report) => report['type'] === 'inbound-rtp' || report['type'] === 'outbound-rtp',
    );
    const track = (kind: string) => {
      const of = tracks
        .filter((report) => report['kind'] === kind)
        .map((report) => this.#track(report, reports));
      // A restarted publisher may have brought a second one: the busier is the present one.
      return of.reduce<TrackFigures | null>(
        (best, next) => (best === null || next.packets > best.packets ? next : best),
        null,
      );
    };
    const video = track('video');
    const audio = track('audio');
    return {
      video,
      audio,
      bitsPerSecond: sum(video?.bitsPerSecond, audio?.bitsPerSecond),
      ...this.#transport(reports),
    };
  }

  #track(report: Report, reports: Map<string, Report>): TrackFigures {
    const sending = report['type'] === 'outbound-rtp';
    const remote = sending ? reports.get(text(report, 'remoteId') ?? '') : report;
    const codec = reports.get(text(report, 'codecId') ?? '');
    const over = (top: string, bottom: string, factor: number) => this.#ratio(report, top, bottom, factor);
    return {
      kind: report['kind'] === 'audio' ? 'audio' : 'video',
      codec: codecName(codec === undefined ? null : text(codec, 'mimeType')),
      bitsPerSecond: this.#perSecond(report, sending ? 'bytesSent' : 'bytesReceived', 8),
      packets: number(report, sending ? 'packetsSent' : 'packetsReceived') ?? 0,
      lostPackets: (remote && number(remote, 'packetsLost')) ?? 0,
      lossPercent: sending
        ? scaled(remote && number(remote, 'fractionLost'), 100)
        : this.#lossPercent(report),
      jitterMs: scaled(remote && number(remote, 'jitter'), 1_000),
      width: number(report, 'frameWidth') ?? 0,
      height: number(report, 'frameHeight') ?? 0,
      framesPerSecond: this.#perSecond(report, sending ? 'framesEncoded' : 'framesDecoded', 1),
      frames: number(report, sending ? 'framesEncoded' : 'framesDecoded') ?? 0,
      framesDropped: number(report, 'framesDropped') ?? 0,
      keyFrames: number(report, sending ? 'keyFramesEncoded' : 'keyFramesDecoded') ?? 0,
      bufferMs: sending ? null : over('jitterBufferDelay', 'jitterBufferEmittedCount', 1_000),
      codingMs: sending
        ? over('totalEncodeTime', 'framesEncoded', 1_000)
        : over('totalDecodeTime', 'framesDecoded', 1_000),
      freezes: number(report, 'freezeCount') ?? 0,
      nacks: number(report, 'nackCount') ?? 0,
      keyFrameRequests: (number(report, 'pliCount') ?? 0) + (number(report, 'firCount') ?? 0),
      retransmitted:
        number(report, sending ? 'retransmittedPacketsSent' : 'retransmittedPacketsReceived') ?? 0,
      concealedPercent: over('concealedSamples', 'totalSamplesReceived', 100),
      energy: number(report, 'totalAudioEnergy') ?? 0,
      limitedBy: limit(text(report, 'qualityLimitationReason')),
      targetBitsPerSecond: number(report, 'targetBitrate'),
    };
  }

  #transport(reports: Map<string, Report>) {
    const transport = [...reports.values()].find((report) => report['type'] === 'transport');
    const pair =
      reports.get((transport && text(transport, 'selectedCandidatePairId')) ?? '') ??
      // Firefox has no transport report.
      [...reports.values()].find(
        (report) =>
          report['type'] === 'candidate-pair' &&
          report['nominated'] === true &&
          report['state'] === 'succeeded',
      );
    const local = reports.get((pair && text(pair, 'localCandidateId')) ?? '');
    const version = transport && text(transport, 'tlsVersion');
    return {
      roundTripMs: scaled(pair && number(pair, 'currentRoundTripTime'), 1_000),
      availableBitsPerSecond: pair === undefined ? null : number(pair, 'availableOutgoingBitrate'),
      path:
        local === undefined
          ? null
          : text(local, 'candidateType') === 'relay'
            ? 'relay'
            : text(local, 'protocol'),
      dtls: version ? (DTLS_VERSIONS[version.toUpperCase()] ?? version) : null,
      srtp: (transport && text(transport, 'srtpCipher')) ?? null,
    };
  }

  #lossPercent(report: Report): number | null {
    const lost = this.#growth(report, 'packetsLost');
    const received = this.#growth(report, 'packetsReceived');
    if (lost === null || received === null || lost + received <= 0) return null;
    // Late packets are first counted as lost and then taken back.
    return Math.max(0, (100 * lost) / (lost + received));
  }

  #perSecond(report: Report, name: string, factor: number): number | null {
    const growth = this.#growth(report, name);
    const first = this.#moments[0];
    const last = this.#moments.at(-1);
    if (growth === null || first === undefined || last === undefined || last.atMs <= first.atMs || growth < 0)
      return null;
    return (growth * factor * 1_000) / (last.atMs - first.atMs);
  }

  #ratio(report: Report, top: string, bottom: string, factor: number): number | null {
    const above = this.#growth(report, top);
    const below = this.#growth(report, bottom);
    return above === null || below === null || below <= 0 ? null : (above * factor) / below;
  }

  /** How much a counter has grown within the window. */
  #growth(report: Report, name: string): number | null {
    const before = this.#moments[0]?.reports.get(text(report, 'id') ?? '');
    const from = before && number(before, name);
    const to = number(report, name);
    return this.#moments.length < 2 || from === null || from === undefined || to === null ? null : to - from;
  }
}

/** The reports of a `getStats` answer with their ids. */
export function entries(stats: RTCStatsReport): [string, unknown][] {
  const all: [string, unknown][] = [];
  stats.forEach((report: unknown, id: string) => all.push([id, report]));
  return all;
}

/** Versions of DTLS on the wire, as `tlsVersion` gives them. */
const DTLS_VERSIONS: Record<string, string> = { FEFD: '1.2', FEFC: '1.3' };

/** `video/H264` as `H.264`. */
export function codecName(mimeType: string | null): string | null {
  if (mimeType === null) return null;
  const name = mimeType.replace(/^.*\//, '');
  const known: Record<string, string> = {
    h264: 'H.264',
    h265: 'H.265',
    opus: 'Opus',
    pcmu: 'G.711 µ-law',
    pcma: 'G.711 A-law',
  };
  return known[name.toLowerCase()] ?? name;
}

/** Names of SRTP profiles are long; people know them by their cipher. */
export function srtpName(profile: string | null): string | null {
  if (profile === null) return null;
  const known: Record<string, string> = {
    AEAD_AES_128_GCM: 'AES-128-GCM',
    AEAD_AES_256_GCM: 'AES-256-GCM',
    SRTP_AEAD_AES_128_GCM: 'AES-128-GCM',
    SRTP_AEAD_AES_256_GCM: 'AES-256-GCM',
    SRTP_AES128_CM_HMAC_SHA1_80: 'AES-128-CM, SHA-1',
    AES_CM_128_HMAC_SHA1_80: 'AES-128-CM, SHA-1',
  };
  return known[profile] ?? profile;
}

function limit(reason: string | null): string | null {
  return reason === null || reason === 'none' ? null : reason;
}

function number(report: Report, name: string): number | null {
  const value = report[name];
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function text(report: Report, name: string): string | null {
  const value = report[name];
  return typeof value === 'string' ? value : null;
}

function scaled(value: number | null | undefined, factor: number): number | null {
  return value === null || value === undefined ? null : value * factor;
}

function sum(a: number | null | undefined, b: number | null | undefined): number | null {
  return a == null && b == null ? null : (a ?? 0) + (b ?? 0);
}
