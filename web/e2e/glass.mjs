/**
 * How old is the picture a browser shows? Plays a stream by WHEP whose pictures carry the time, and prints
 * what it read.
 *
 *   MILLSTREAM_URL=http://127.0.0.1:8080/ STREAM=live/glass SECONDS=10 AUDIO=1 node e2e/glass.mjs
 *
 * The top 16 lines of a picture 640 wide hold 40 blocks of 16 x 16: dark is 0, bright is 1, most significant
 * first; 32 bits of wall clock in milliseconds, 8 bits of checksum (scripts/bench.d/_glass.py draws them).
 * Each picture that is presented is copied to a canvas in its requestVideoFrameCallback, and the time is
 * compared with this machine's clock. Prints one line of JSON: ages in milliseconds at the callback and at
 * the time of display, and what the receiver says of its buffers.
 */
import { launch, openPage } from './browser.mjs';

const url = process.env.MILLSTREAM_URL?.replace(/\/*$/, '/');
const seconds = Number(process.env.SECONDS ?? 10);
if (!url || !process.env.STREAM) {
  console.error('MILLSTREAM_URL and STREAM say what to play');
  process.exit(2);
}

const browser = await launch();
try {
  const { page } = await openPage(browser, url);
  await page.goto(`${url}api/v1/streams`);
  const options = { whep: `${url}whep/${process.env.STREAM}`, seconds, audio: process.env.AUDIO !== '0' };
  console.log(JSON.stringify(await page.evaluate(watch, options)));
} finally {
  await browser.close();
}

/** Runs in the page. */
async function watch({ whep, seconds, audio }) {
  const BLOCK = 16;
  const BITS = 40;

  async function connect(video) {
    const peer = new RTCPeerConnection();
    peer.addTransceiver('video', { direction: 'recvonly' });
    if (audio) peer.addTransceiver('audio', { direction: 'recvonly' });
    peer.ontrack = (event) => {
      video.srcObject = event.streams[0];
    };
    await peer.setLocalDescription();
    const headers = { 'content-type': 'application/sdp' };
    const answer = await fetch(whep, { method: 'POST', headers, body: peer.localDescription.sdp });
    if (answer.status !== 201) throw new Error(`WHEP answered ${answer.status}: ${await answer.text()}`);
    await peer.setRemoteDescription({ type: 'answer', sdp: await answer.text() });
    return peer;
  }

  function readTime(pixels) {
    const bits = [];
    for (let block = 0; block < BITS; block += 1) {
      const at = (BLOCK / 2) * BLOCK * BITS * 4 + (block * BLOCK + BLOCK / 2) * 4;
      bits.push(pixels[at + 1] > 127 ? 1 : 0);
    }
    const byte = (index) => bits.slice(index * 8, index * 8 + 8).reduce((value, bit) => value * 2 + bit, 0);
    const sum = (byte(0) + byte(1) + byte(2) + byte(3) + 0x5a) % 256;
    return sum === byte(4) ? ((byte(0) * 256 + byte(1)) * 256 + byte(2)) * 256 + byte(3) : null;
  }

  async function receiverStats(peer) {
    const kinds = {};
    // The sender's clock at what is played right now, by sender reports.
    const playing = {};
    const sender_reports = {};
    for (const report of (await peer.getStats()).values()) {
      if (report.type === 'remote-outbound-rtp') sender_reports[report.kind] = report.reportsSent;
      if (report.type !== 'inbound-rtp') continue;
      const { jitterBufferDelay, jitterBufferEmittedCount, totalProcessingDelay, totalDecodeTime, framesDecoded } = report;
      if (report.estimatedPlayoutTimestamp) playing[report.kind] = report.estimatedPlayoutTimestamp;
      const { packetsLost, framesDropped, freezeCount, concealedSamples, silentConcealedSamples } = report;
      kinds[report.kind] = {
        jitter_buffer_ms: (jitterBufferDelay / jitterBufferEmittedCount) * 1000,
        processing_ms: framesDecoded ? (totalProcessingDelay / framesDecoded) * 1000 : undefined,
        decode_ms: framesDecoded ? (totalDecodeTime / framesDecoded) * 1000 : undefined,
        ...{ packetsLost, framesDecoded, framesDropped, freezeCount, concealedSamples, silentConcealedSamples },
      };
    }
    const ahead = playing.audio && playing.video ? { audio_ahead_ms: playing.audio - playing.video } : {};
    return { ...kinds, sync: ahead, sender_reports };
  }

  const video = document.createElement('video');
  video.autoplay = true;
  document.body.replaceChildren(video);
  const canvas = document.createElement('canvas');
  canvas.width = BLOCK * BITS;
  canvas.height = BLOCK;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const peer = await connect(video);

  const seen = [];
  let unreadable = 0;
  const history = [];
  const look = setInterval(async () => history.push(await receiverStats(peer)), 1000);
  const end = performance.now() + seconds * 1000;
  await new Promise((resolve) => {
    const onFrame = (_now, metadata) => {
      const wall = performance.timeOrigin + performance.now();
      context.drawImage(video, 0, 0, BLOCK * BITS, BLOCK, 0, 0, BLOCK * BITS, BLOCK);
      const time = readTime(context.getImageData(0, 0, canvas.width, canvas.height).data);
      if (time === null) {
        unreadable += 1;
      } else {
        // 32 bits of milliseconds go round every 50 days.
        const age = (until) => (((until % 2 ** 32) - time + 2 ** 32 + 2 ** 31) % 2 ** 32) - 2 ** 31;
        seen.push({
          at: wall,
          age: age(wall),
          shown: age(Math.max(wall, performance.timeOrigin + metadata.expectedDisplayTime)),
        });
      }
      if (performance.now() < end) video.requestVideoFrameCallback(onFrame);
      else resolve();
    };
    video.requestVideoFrameCallback(onFrame);
    setTimeout(resolve, seconds * 1000 + 10_000);
  });
  clearInterval(look);
  const result = { frames: seen, unreadable, stats: await receiverStats(peer), history };
  peer.close();
  return result;
}
