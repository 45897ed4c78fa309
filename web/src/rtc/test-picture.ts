/**
 * A picture to publish without a camera: bars, a turning wheel, the time, and a stamp that tells viewers how
 * old it is.
 *
 * With it comes a short beep every second, so that one hears whether audio is in sync with the wheel.
 */
import { browserMemory } from './same-clock';
import { clockId, stampCells, STAMP_CELLS, STAMP_HEIGHT } from './stamp';

export interface TestPictureOptions {
  width: number;
  height: number;
  framesPerSecond: number;
  audio: boolean;
}

export interface TestPicture {
  stream: MediaStream;
  stop: () => void;
}

/** Colours of the bars; muted, so that white text stays legible. */
const BARS = ['#39474d', '#8a7a2e', '#1f7a8c', '#2e7d4f', '#7c3f8c', '#9c3b34', '#2f4fa0', '#151e21'];
const BEEP_HZ = 880;
const BEEP_SECONDS = 0.06;
/** Beeps are planned this far ahead. */
const BEEP_AHEAD_SECONDS = 1.5;

/** `captureStream(0)` delivers a frame for each `requestFrame`; not in TypeScript's library. */
type FrameTrack = MediaStreamTrack & { requestFrame?: () => void };

export function testPicture(options: TestPictureOptions): TestPicture {
  const canvas = document.createElement('canvas');
  canvas.width = options.width;
  canvas.height = options.height;
  const context = canvas.getContext('2d', { alpha: false });
  if (context === null) throw new Error('The browser cannot draw the test picture.');
  const background = drawBackground(options.width, options.height);
  const clock = clockId(browserMemory());
  const stream = canvas.captureStream(0);
  const [track] = stream.getVideoTracks() as FrameTrack[];
  const tone = options.audio ? beeps() : null;
  if (tone !== null) stream.addTrack(tone.track);
  const draw = () => {
    drawFrame(context, background, clock, Date.now());
    track?.requestFrame?.();
    tone?.plan();
  };
  const ticker = new Worker(new URL('./ticker.ts', import.meta.url), { type: 'module' });
  ticker.addEventListener('message', draw);
  ticker.postMessage(1_000 / options.framesPerSecond);
  draw();
  return {
    stream,
    stop: () => {
      ticker.terminate();
      tone?.stop();
      for (const each of stream.getTracks()) each.stop();
    },
  };
}

/** What does not change from frame to frame. */
function drawBackground(width: number, height: number): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d', { alpha: false });
  if (context === null) return canvas;
  const bar = width / BARS.length;
  BARS.forEach((colour, index) => {
    context.fillStyle = colour;
    context.fillRect(Math.floor(index * bar), 0, Math.ceil(bar), height);
  });
  const shade = context.createLinearGradient(0, 0, 0, height);
  shade.addColorStop(0, 'rgb(255 255 255 / 12%)');
  shade.addColorStop(1, 'rgb(0 0 0 / 45%)');
  context.fillStyle = shade;
  context.fillRect(0, 0, width, height);
  return canvas;
}

function drawFrame(
  context: CanvasRenderingContext2D,
  background: HTMLCanvasElement,
  clock: number,
  nowMs: number,
): void {
  const { width, height } = background;
  context.drawImage(background, 0, 0);
  drawWheel(context, width * 0.5, height * 0.42, height * 0.24, ((nowMs % 4_000) / 4_000) * 2 * Math.PI);
  context.fillStyle = '#ffffff';
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.font = `600 ${Math.round(height * 0.11)}px ui-monospace, monospace`;
  context.fillText(clockText(nowMs), width / 2, height * 0.8);
  context.font = `${Math.round(height * 0.04)}px system-ui, sans-serif`;
  context.fillText(`Millstream test picture · ${width}×${height}`, width / 2, height * 0.91);
  // Last, so that it is as young as can be.
  drawStamp(context, width, height, stampCells({ clock, timeMs: Date.now() }));
}

function drawWheel(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  radius: number,
  angle: number,
): void {
  context.strokeStyle = '#f0b43c';
  context.lineWidth = radius * 0.07;
  context.beginPath();
  context.arc(x, y, radius * 0.78, 0, 2 * Math.PI);
  for (let spoke = 0; spoke < 8; spoke += 1) {
    const at = angle + (spoke * Math.PI) / 4;
    context.moveTo(x, y);
    context.lineTo(x + radius * Math.cos(at), y + radius * Math.sin(at));
  }
  context.stroke();
}

function drawStamp(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  cells: readonly boolean[],
): void {
  const cell = width / STAMP_CELLS;
  const tall = Math.ceil(height * STAMP_HEIGHT);
  context.fillStyle = '#000000';
  context.fillRect(0, 0, width, tall);
  context.fillStyle = '#ffffff';
  cells.forEach((white, index) => {
    if (white)
      context.fillRect(
        Math.round(index * cell),
        0,
        Math.round((index + 1) * cell) - Math.round(index * cell),
        tall,
      );
  });
}

/** `14:03:27.480`, local time. */
function clockText(nowMs: number): string {
  const time = new Date(nowMs);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, '0')}`;
}

/** Beeps at each full second; null where the browser has no audio output. */
function beeps(): { track: MediaStreamTrack; plan: () => void; stop: () => void } | null {
  if (typeof AudioContext === 'undefined') return null;
  const audio = new AudioContext();
  const end = audio.createMediaStreamDestination();
  const [track] = end.stream.getAudioTracks();
  if (track === undefined) return null;
  let planned = audio.currentTime;
  const plan = () => {
    const untilSecond = (1_000 - (Date.now() % 1_000)) / 1_000;
    const at = audio.currentTime + untilSecond;
    if (at <= planned + 0.5 || at > audio.currentTime + BEEP_AHEAD_SECONDS) return;
    planned = at;
    beep(audio, end, at);
  };
  void audio.resume().catch(() => undefined);
  return { track, plan, stop: () => void audio.close().catch(() => undefined) };
}

function beep(audio: AudioContext, end: AudioNode, at: number): void {
  const tone = audio.createOscillator();
  const gain = audio.createGain();
  tone.frequency.value = BEEP_HZ;
  // Short ramps: a tone that is cut off clicks.
  gain.gain.setValueAtTime(0, at);
  gain.gain.linearRampToValueAtTime(0.4, at + 0.005);
  gain.gain.setValueAtTime(0.4, at + BEEP_SECONDS);
  gain.gain.linearRampToValueAtTime(0, at + BEEP_SECONDS + 0.02);
  tone.connect(gain).connect(end);
  tone.start(at);
  tone.stop(at + BEEP_SECONDS + 0.05);
}
