/**
 * A video element goes black when its source is taken away; the last frame as poster looks calmer.
 */

/** Widest poster in pixels; it is only seen for a moment. */
const WIDTH_MAX = 960;

export function keepLastPicture(video: HTMLVideoElement): void {
  if (video.videoWidth === 0 || video.readyState < 2) return;
  try {
    const canvas = document.createElement('canvas');
    canvas.width = Math.min(video.videoWidth, WIDTH_MAX);
    canvas.height = Math.round((canvas.width * video.videoHeight) / video.videoWidth);
    canvas.getContext('2d')?.drawImage(video, 0, 0, canvas.width, canvas.height);
    video.poster = canvas.toDataURL('image/jpeg', 0.7);
  } catch {
    // Only a nicety: a black picture does as well.
  }
}
