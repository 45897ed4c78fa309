/**
 * Camera, screen or test picture as one MediaStream, with what the person chose and refusals in words.
 */
import { describeCaptureError } from './errors';
import { testPicture } from './test-picture';

export type SourceKind = 'camera' | 'screen' | 'test';

export interface CaptureOptions {
  source: SourceKind;
  /** Empty for the browser's choice. */
  cameraId: string;
  microphoneId: string;
  /** Picture height in lines; width follows at 16:9. */
  lines: number;
  framesPerSecond: number;
  /** Whether to capture audio: microphone, the audio of the screen, or beeps. */
  audio: boolean;
}

export interface Capture {
  source: SourceKind;
  stream: MediaStream;
  /** What could not be had although it was asked for, e.g. no microphone; empty when all is there. */
  remark: string;
  stop: () => void;
}

/** Lines to choose from. */
export const LINES = [1080, 720, 540, 360] as const;

/**
 * Why camera and screen cannot be used on this page at all; null when they can. Browsers give them only to
 * pages that came over HTTPS or from this machine.
 */
export function captureObstacle(secure: boolean, devices: MediaDevices | undefined): string | null {
  if (!secure) return 'insecure';
  return devices === undefined ? 'missing' : null;
}

/** Opens the source. Fails with an Error whose message is for people. */
export async function capture(options: CaptureOptions): Promise<Capture> {
  switch (options.source) {
    case 'camera':
      return captureCamera(options);
    case 'screen':
      return captureScreen(options);
    case 'test': {
      const { stream, stop } = testPicture({
        ...size(options.lines),
        framesPerSecond: options.framesPerSecond,
        audio: options.audio,
      });
      return { source: 'test', stream, stop, remark: '' };
    }
  }
}

async function captureCamera(options: CaptureOptions): Promise<Capture> {
  const { width, height } = size(options.lines);
  const video: MediaTrackConstraints = {
    width: { ideal: width },
    height: { ideal: height },
    frameRate: { ideal: options.framesPerSecond },
  };
  if (options.cameraId !== '') video.deviceId = { exact: options.cameraId };
  const audio = microphone(options.microphoneId);
  try {
    // One request asks the person once for both.
    return finished(
      'camera',
      await navigator.mediaDevices.getUserMedia({ video, audio: options.audio ? audio : false }),
      '',
    );
  } catch (both) {
    if (!options.audio) throw new Error(describeCaptureError(both, 'the camera'), { cause: both });
    return cameraAlone(video, both);
  }
}

/** A missing microphone must not keep the picture back. */
async function cameraAlone(video: MediaTrackConstraints, before: unknown): Promise<Capture> {
  let stream: MediaStream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video });
  } catch (cause) {
    throw new Error(describeCaptureError(cause, 'the camera'), { cause });
  }
  return finished(
    'camera',
    stream,
    `${describeCaptureError(before, 'the microphone')} Only the picture is sent.`,
  );
}

async function captureScreen(options: CaptureOptions): Promise<Capture> {
  if (navigator.mediaDevices.getDisplayMedia === undefined)
    throw new Error('This browser cannot share its screen.');
  const { height } = size(options.lines);
  try {
    const stream = await navigator.mediaDevices.getDisplayMedia({
      video: { height: { max: height }, frameRate: { ideal: options.framesPerSecond } },
      audio: options.audio,
    });
    const silent = options.audio && stream.getAudioTracks().length === 0;
    return finished('screen', stream, silent ? 'The browser shares this screen without audio.' : '');
  } catch (cause) {
    const refused = cause instanceof DOMException && cause.name === 'NotAllowedError';
    throw new Error(
      refused
        ? 'No screen was chosen, or sharing it is not allowed.'
        : describeCaptureError(cause, 'the screen'),
      { cause },
    );
  }
}

function finished(source: SourceKind, stream: MediaStream, remark: string): Capture {
  // Tells the encoder what to save when bits are short: sharpness of text or smooth motion.
  for (const track of stream.getVideoTracks()) track.contentHint = source === 'screen' ? 'detail' : 'motion';
  return { source, stream, remark, stop: () => stream.getTracks().forEach((track) => track.stop()) };
}

function microphone(id: string): MediaTrackConstraints {
  return id === '' ? {} : { deviceId: { exact: id } };
}

/** 16:9, rounded to even numbers as encoders want them. */
function size(lines: number): { width: number; height: number } {
  return { width: 2 * Math.round((lines * 16) / 9 / 2), height: lines };
}
