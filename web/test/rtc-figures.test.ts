/** Figures from getStats reports, the stamp of the test picture, and what is made of both. */
import { describe, expect, it } from 'vitest';
import { captureTime, delayOf, DelayFilter, delayWords, type Sight } from '../src/rtc/delay';
import { announceOnAir, publishedHere } from '../src/rtc/same-clock';
import { clockId, readStamp, STAMP_CELLS, stampCells } from '../src/rtc/stamp';
import { codecName, FiguresSampler, srtpName } from '../src/rtc/stats';

const inbound = (change: Record<string, unknown> = {}) => ({
  id: 'IV', type: 'inbound-rtp', kind: 'video', codecId: 'C', bytesReceived: 0, packetsReceived: 0, packetsLost: 0, jitter: 0.004, frameWidth: 1280, frameHeight: 720,
  framesDecoded: 0, framesDropped: 0, keyFramesDecoded: 1, jitterBufferDelay: 0, jitterBufferEmittedCount: 0, totalDecodeTime: 0, ...change,
});
const CODEC = { id: 'C', type: 'codec', mimeType: 'video/H264' };
const TRANSPORT = { id: 'T', type: 'transport', selectedCandidatePairId: 'P', tlsVersion: 'FEFC', srtpCipher: 'AEAD_AES_128_GCM' };
const PAIR = { id: 'P', type: 'candidate-pair', currentRoundTripTime: 0.012, localCandidateId: 'L' };
const LOCAL = { id: 'L', type: 'local-candidate', candidateType: 'host', protocol: 'udp' };
const reports = (...all: { id: string }[]) => all.map((report) => [report.id, report] as const);

describe('figures of a connection', () => {
  it('are differences between reports', () => {
    const sampler = new FiguresSampler();
    sampler.sample(reports(inbound(), CODEC), 0);
    const now = inbound({ bytesReceived: 250_000, packetsReceived: 198, packetsLost: 2, framesDecoded: 30, jitterBufferDelay: 1.2, jitterBufferEmittedCount: 30, totalDecodeTime: 0.06 });
    const { video, bitsPerSecond } = sampler.sample(reports(now, CODEC, TRANSPORT, PAIR, LOCAL), 1_000);
    expect(video).toMatchObject({ codec: 'H.264', bitsPerSecond: 2_000_000, lossPercent: 1, jitterMs: 4, width: 1280, framesPerSecond: 30, frames: 30, codingMs: 2 });
    expect(video?.bufferMs).toBeCloseTo(40);
    expect(bitsPerSecond).toBe(2_000_000);
  });

  it('name path and protection', () => {
    const figures = new FiguresSampler().sample(reports(inbound(), TRANSPORT, PAIR, LOCAL), 0);
    expect(figures).toMatchObject({ roundTripMs: 12, path: 'udp', dtls: '1.3', srtp: 'AEAD_AES_128_GCM' });
    expect(srtpName('AEAD_AES_128_GCM')).toBe('AES-128-GCM');
    expect(srtpName('SOMETHING_NEW')).toBe('SOMETHING_NEW');
  });

  it('are unknown, not zero, before there are two reports', () => {
    const { video, audio, bitsPerSecond } = new FiguresSampler().sample(reports(inbound()), 0);
    expect(video).toMatchObject({ bitsPerSecond: null, lossPercent: null, framesPerSecond: null, bufferMs: null });
    expect(audio).toBeNull();
    expect(bitsPerSecond).toBeNull();
  });

  it('follow the last seconds, not the whole connection', () => {
    const sampler = new FiguresSampler();
    for (let second = 0; second <= 10; second += 1) {
      sampler.sample(reports(inbound({ bytesReceived: second * 1_000, packetsReceived: second * 10, packetsLost: Math.min(second, 2) })), second * 1_000);
    }
    const { video } = sampler.sample(reports(inbound({ bytesReceived: 10_000, packetsReceived: 100, packetsLost: 2 })), 11_000);
    expect(video?.lossPercent).toBe(0);
    expect(video?.bitsPerSecond).toBeLessThan(8_000);
  });

  it('take losses that were taken back for none', () => {
    const sampler = new FiguresSampler();
    sampler.sample(reports(inbound({ packetsLost: 5, packetsReceived: 10 })), 0);
    expect(sampler.sample(reports(inbound({ packetsLost: 3, packetsReceived: 30 })), 1_000).video?.lossPercent).toBe(0);
  });

  it('of a publisher come from what the server reports back', () => {
    const sampler = new FiguresSampler();
    const sent = (change: Record<string, unknown>) => ({ id: 'OV', type: 'outbound-rtp', kind: 'video', remoteId: 'R', bytesSent: 0, framesEncoded: 0, totalEncodeTime: 0, qualityLimitationReason: 'cpu', ...change });
    const remote = { id: 'R', type: 'remote-inbound-rtp', fractionLost: 0.02, packetsLost: 7, jitter: 0.001 };
    sampler.sample(reports(sent({}), remote), 0);
    const { video } = sampler.sample(reports(sent({ bytesSent: 125_000, framesEncoded: 25, totalEncodeTime: 0.1 }), remote), 1_000);
    expect(video).toMatchObject({ bitsPerSecond: 1_000_000, lossPercent: 2, lostPackets: 7, jitterMs: 1, framesPerSecond: 25, codingMs: 4, limitedBy: 'cpu' });
  });

  it('name codecs as people do', () => {
    expect(['video/H264', 'audio/opus', 'video/AV1', 'audio/PCMU', null].map(codecName)).toEqual(['H.264', 'Opus', 'AV1', 'G.711 µ-law', null]);
  });
});

describe('the stamp', () => {
  const now = Date.parse('2026-11-21T21:45:00Z');
  const brightness = (cells: boolean[], black = 16, white = 235) => cells.map((cell) => (cell ? white : black));

  it.each([0, 1, 40, 86_400_000, -3])('is read back as it was drawn, %i ms before now', (age) => {
    const stamp = { clock: 51_234, timeMs: now - age };
    expect(readStamp(brightness(stampCells(stamp)), now)).toEqual(stamp);
  });

  it('is completed over the end of its 32 bits', () => {
    const wrap = Math.ceil(now / 2 ** 32) * 2 ** 32;
    for (const [drawn, read] of [[wrap - 5, wrap + 5], [wrap + 5, wrap - 5]] as const) {
      expect(readStamp(brightness(stampCells({ clock: 1, timeMs: drawn })), read)?.timeMs).toBe(drawn);
    }
  });

  it('survives a dull picture, and is refused when any cell is wrong', () => {
    const cells = stampCells({ clock: 7, timeMs: now });
    expect(readStamp(brightness(cells, 90, 140), now)?.timeMs).toBe(now);
    for (let cell = 0; cell < STAMP_CELLS; cell += 1) {
      const damaged = cells.map((value, index) => (index === cell ? !value : value));
      expect(readStamp(brightness(damaged), now), `cell ${cell}`).toBeNull();
    }
  });

  it.each([[[]], [Array.from({ length: 64 }, () => 128)], [Array.from({ length: 63 }, () => 0)]])('is not seen where there is none', (cells) => {
    expect(readStamp(cells, now)).toBeNull();
  });

  it('has one clock in all tabs of a browser', () => {
    const values = new Map<string, string>();
    const storage = { getItem: (key: string) => values.get(key) ?? null, setItem: (key: string, value: string) => void values.set(key, value) };
    const made = clockId(storage, () => 0.5);
    expect(made).toBe(32_768);
    expect(clockId(storage, () => 0.1)).toBe(made);
    expect(clockId(null, () => 0.1)).toBe(6_553);
  });
});

describe('delay', () => {
  const sight = (change: Partial<Sight> = {}): Sight => ({ shownAtMs: 10_000, stamp: null, capturedAtMs: null, inBrowserMs: null, roundTripMs: null, publishedHere: false, ...change });

  it('is measured by the stamp if there is one, else by capture times, else estimated', () => {
    const all = sight({ stamp: { clock: 3, timeMs: 9_940 }, capturedAtMs: 9_950, inBrowserMs: 30, roundTripMs: 20 });
    expect(delayOf(all, 3)).toEqual({ source: 'stamp', milliseconds: 60, sameClock: true });
    expect(delayOf({ ...all, stamp: null }, 3)).toEqual({ source: 'capture', milliseconds: 50, sameClock: false });
    expect(delayOf({ ...all, stamp: null, publishedHere: true }, 3)).toEqual({ source: 'capture', milliseconds: 50, sameClock: true });
    expect(delayOf({ ...all, stamp: null, capturedAtMs: null }, 3)).toEqual({ source: 'network', milliseconds: 40, sameClock: true });
    expect(delayOf(sight({ inBrowserMs: 30 }), 3)).toBeNull();
  });

  it('does not believe clocks that differ by more than a delay can be', () => {
    const far = sight({ stamp: { clock: 9, timeMs: 90_000 }, capturedAtMs: -60_000, inBrowserMs: 30, roundTripMs: 20 });
    expect(delayOf(far, 3)?.source).toBe('network');
    expect(delayOf(sight({ stamp: { clock: 9, timeMs: 10_010 } }), 3)).toEqual({ source: 'stamp', milliseconds: 0, sameClock: false });
  });

  it('is a median, and starts over with another source', () => {
    const filter = new DelayFilter();
    const stamp = (milliseconds: number) => filter.add({ source: 'stamp', milliseconds, sameClock: true }).milliseconds;
    expect([50, 400, 60, 55].map(stamp)).toEqual([50, 400, 60, 60]);
    expect(filter.add({ source: 'network', milliseconds: 20, sameClock: true }).milliseconds).toBe(20);
  });

  it('says plainly what is measured and what is estimated', () => {
    const name = (source: 'stamp' | 'capture' | 'network', sameClock: boolean) => delayWords({ source, sameClock, milliseconds: 1 }).name;
    expect(name('stamp', true)).toBe('Glass to glass, measured');
    expect(name('capture', false)).toBe('Delay (two clocks)');
    expect(name('network', true)).toBe('Server to screen, estimated');
  });

  it('finds the capture time of the frame on the screen, over the wrap of its timestamp', () => {
    const ntp = 4_004_284_337_651;
    expect(captureTime(ntp, 9_000, 9_000)).toBe(1_795_295_537_651);
    expect(captureTime(ntp, 9_000, 0)).toBe(1_795_295_537_551);
    expect(captureTime(ntp, 0xffff_ff00, 8_744)).toBe(1_795_295_537_751);
  });

  it('knows what another tab of this browser publishes, while it does', () => {
    const values = new Map<string, string>();
    const memory = { getItem: (key: string) => values.get(key) ?? null, setItem: (key: string, value: string) => void values.set(key, value), removeItem: (key: string) => void values.delete(key) };
    announceOnAir('live/show', 1_000, memory);
    expect(publishedHere('live/show', 2_000, memory)).toBe(true);
    expect(publishedHere('live/other', 2_000, memory)).toBe(false);
    expect(publishedHere('live/show', 9_000, memory)).toBe(false);
    announceOnAir(null, 2_000, memory);
    expect(publishedHere('live/show', 2_000, memory)).toBe(false);
    expect(publishedHere('live/show', 2_000, null)).toBe(false);
  });
});
