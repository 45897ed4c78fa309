/**
 * Recordings in a real browser: a stream is recorded by hand, its file is played with seeking, downloaded and
 * deleted. The server has to have a directory for recordings.
 */
import { readFile } from 'node:fs/promises';
import { until } from './browser.mjs';

const rows = (page) => page.locator('tr[data-recording]');

async function recordsPlaysAndDeletes({ page, url, api }) {
  const { demo_stream: demo, recording } = await api('/server');
  if (!recording) throw new Error('nothing can be recorded: start the server with record.directory');
  await page.goto(`${url}#/stream/${demo}`);
  await page.getByRole('button', { name: `Record ${demo}` }).click();
  const stop = page.getByRole('button', { name: `Stop recording ${demo}` });
  await stop.waitFor();
  await page.goto(`${url}#/recordings?search=${encodeURIComponent(demo)}`);
  await page.locator(`tr[data-active="${demo}"]`).waitFor();
  await rows(page).first().getByRole('link', { name: `Watch ${demo} live` }).waitFor();
  await until('some seconds are recorded', async () => ((await api('/recordings')).files[0]?.duration_ms ?? 0) > 5_000);
  await page.getByRole('button', { name: `Stop recording ${demo}` }).click();
  const file = await until('the file is complete', async () => (await api('/recordings')).files.find((known) => known.state === 'complete'));
  const play = page.getByRole('button', { name: `Play ${demo} of ${file.file}` });
  await until('it can be played', async () => (await play.count()) === 1 && (await play.isEnabled()));

  const ranges = [];
  page.on('response', (response) => {
    if (response.url().includes(file.file) && response.request().method() === 'GET') ranges.push([response.status(), response.url()]);
  });
  await play.click();
  const video = page.locator('.recording-player video');
  const state = () => video.evaluate((element) => ({ time: element.currentTime, length: element.duration, width: element.videoWidth, ready: element.readyState, seeking: element.seeking, frames: element.getVideoPlaybackQuality().totalVideoFrames }));
  await until('it plays', async () => {
    const { time, width, frames } = await state();
    return time > 0.5 && width > 0 && frames > 5;
  });
  const { length } = await state();
  if (Math.abs(length * 1000 - file.duration_ms) > 100) throw new Error(`the player has ${length} s, the list ${file.duration_ms} ms`);
  for (const target of [length - 1.5, 0.2, length / 2]) {
    await video.evaluate((element, time) => { element.currentTime = time; }, target);
    await until(`it plays from ${target.toFixed(1)} s on`, async () => {
      const { time, ready, seeking } = await state();
      return !seeking && ready >= 2 && time >= target && time < target + 3;
    });
  }
  if (!ranges.some(([status]) => status === 206)) throw new Error(`no range was answered: ${JSON.stringify(ranges)}`);
  if (ranges.some(([, address]) => !address.includes('signature='))) throw new Error('a request without a link');

  const downloaded = page.waitForEvent('download');
  await page.getByRole('dialog').getByRole('button', { name: /^Download/ }).click();
  const download = await downloaded;
  const bytes = await readFile(await download.path());
  if (bytes.length !== file.bytes) throw new Error(`${bytes.length} of ${file.bytes} bytes were downloaded`);
  if (!download.suggestedFilename().endsWith(file.file)) throw new Error(`it is called ${download.suggestedFilename()}`);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });

  await page.getByRole('button', { name: `Delete ${demo} of ${file.file}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.locator(`tr[data-recording="${demo}/${file.file}"]`).waitFor({ state: 'detached' });
  if ((await api('/recordings')).files.some((known) => known.file === file.file)) throw new Error('it is still there');
}

async function findsRecordings({ page, url }) {
  await page.goto(`${url}#/recordings?search=no%20such%20stream`);
  await page.getByText('No recording of such a stream').waitFor();
  await page.getByPlaceholder('Find streams by name').fill('');
  await page.getByText('No recording of such a stream').waitFor({ state: 'detached' });
  if (!page.url().endsWith('#/recordings')) throw new Error(`the address is ${page.url()}`);
}

export const RECORDING_CHECKS = [
  ['a stream is recorded, its file played with seeking, downloaded and deleted', recordsPlaysAndDeletes],
  ['recordings are found by the name of their stream', findsRecordings],
];
