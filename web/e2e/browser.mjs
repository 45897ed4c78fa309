/**
 * Chromium for the browser test: start, one page that must not misbehave, and waiting with deadlines.
 */
import { chromium } from 'playwright-core';

const FLAGS = [
  '--headless=new',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--autoplay-policy=no-user-gesture-required',
];

/** A made-up camera (moving pattern), microphone (beeps) and screen, all allowed without asking. */
export const FAKE_DEVICES = ['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'];

/** Longest wait for anything the page does by itself. Generous: the machine may be busy. */
export const DEADLINE_MS = 30_000;

export async function launch(flags = []) {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: [...FLAGS, ...flags] });
}

/**
 * A fresh context and page. `faults` collects what must never happen: exceptions, violations of the content
 * security policy, and requests to another origin than the server's.
 */
export async function openPage(browser, serverUrl, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'dark', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE_MS);
  const faults = [];
  const host = new URL(serverUrl).host;
  page.on('pageerror', (error) => faults.push(`exception in the page: ${error.message}`));
  page.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) faults.push(message.text());
  });
  const sameHost = (url) => /^(data|blob):/.test(url) || new URL(url).host === host;
  page.on('request', (request) => {
    if (!sameHost(request.url())) faults.push(`request to another host: ${request.url()}`);
  });
  page.on('websocket', (socket) => {
    if (!sameHost(socket.url())) faults.push(`WebSocket to another host: ${socket.url()}`);
  });
  return { context, page, faults };
}

/** Waits until `probe()` gives something true, or fails saying what was waited for and what was seen last. */
export async function until(what, probe, deadlineMs = DEADLINE_MS) {
  const end = Date.now() + deadlineMs;
  let seen;
  for (;;) {
    seen = await probe();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`waited ${deadlineMs / 1000} s in vain until ${what}; last seen: ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** The promise, or an error when it takes longer. */
export async function within(promise, ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`took longer than ${ms / 1000} s`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** What the page's video element does right now. */
export function videoState(page) {
  return page.evaluate(() => {
    const video = document.querySelector('[data-testid=player] video');
    if (video === null) return null;
    return {
      time: video.currentTime,
      frames: video.getVideoPlaybackQuality().totalVideoFrames,
      width: video.videoWidth,
      height: video.videoHeight,
      phase: document.querySelector('[data-testid=player]')?.dataset.phase ?? null,
      overlay: document.querySelector('.overlay')?.textContent ?? '',
    };
  });
}

/**
 * Fails unless time advances by a second, frames are decoded meanwhile and the picture is more than one flat
 * colour.
 */
export async function expectPlayback(page) {
  const first = await until('the first frames are decoded', async () => {
    const state = await videoState(page);
    return state !== null && state.frames > 5 && state.time > 0 ? state : null;
  }).catch(async (error) => {
    throw new Error(`${error.message}; video: ${JSON.stringify(await videoState(page))}`);
  });
  const later = await until('a further second of video is played', async () => {
    const state = await videoState(page);
    return state !== null && state.time >= first.time + 1 && state.frames >= first.frames + 5 ? state : null;
  }).catch(async (error) => {
    throw new Error(`${error.message}; from ${JSON.stringify(first)} to ${JSON.stringify(await videoState(page))}`);
  });
  const colours = await until('the picture has many colours', async () => {
    const count = await countColours(page);
    return count >= 8 ? count : 0;
  });
  return { ...later, colours };
}

/** Different colours, in steps of 32, in a small copy of the picture. */
function countColours(page) {
  return page.evaluate(() => {
    const video = document.querySelector('[data-testid=player] video');
    const canvas = document.createElement('canvas');
    canvas.width = 96;
    canvas.height = 54;
    const context = canvas.getContext('2d');
    context.drawImage(video, 0, 0, canvas.width, canvas.height);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let at = 0; at < data.length; at += 4) seen.add(((data[at] >> 5) << 6) | ((data[at + 1] >> 5) << 3) | (data[at + 2] >> 5));
    return seen.size;
  });
}

/** Runs in the page: how many coloured (not grey) points each chart below `place` has. */
export function inkOfCharts(place) {
  return [...document.querySelectorAll(`${place} .chart-box canvas`)].map((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let ink = 0;
    for (let at = 0; at < data.length; at += 4) {
      const [low, high] = [Math.min(data[at], data[at + 1], data[at + 2]), Math.max(data[at], data[at + 1], data[at + 2])];
      if (data[at + 3] > 100 && high - low > 60) ink += 1;
    }
    return ink;
  });
}
