/**
 * What publishing and playing by WebRTC must do in a real browser.
 *
 * Each check is `(test) => Promise<remark>`; `test` has browser, url, api and contexts (closed afterwards).
 * Every check uses a stream of its own, so that none depends on how another ended.
 */
import { expectPlayback, launch, openPage, until, videoState } from './browser.mjs';

/** Collects the page's peer connections, so that their statistics can be asked for. */
const COLLECT_PEERS = `
  window.peers = [];
  const Original = RTCPeerConnection;
  window.RTCPeerConnection = class extends Original {
    constructor(...values) {
      super(...values);
      window.peers.push(this);
    }
  };
`;

async function newPage({ browser, url, contexts }, options = {}) {
  const opened = await openPage(browser, url, options);
  contexts.push(opened.context);
  await opened.page.addInitScript(COLLECT_PEERS);
  return opened;
}

/** Another tab of the same browser profile. */
async function newTab(context) {
  const page = await context.newPage();
  await page.addInitScript(COLLECT_PEERS);
  return page;
}

/** All reports of the page's newest peer connection, of the types that are looked at. */
async function stats(page) {
  return page.evaluate(async () => {
    const peer = window.peers.at(-1);
    if (peer === undefined) return [];
    return [...(await peer.getStats()).values()].filter(({ type }) => /^(inbound-rtp|outbound-rtp|transport|codec|candidate-pair|remote-inbound-rtp)$/.test(type));
  });
}

async function report(page, type, kind) {
  return (await stats(page)).find((entry) => entry.type === type && (kind === undefined || entry.kind === kind));
}

/** Publishes from the publish page and waits until it is on air. */
async function publish(test, name, { source = 'camera', codec = 'auto', context } = {}) {
  const page = context === undefined ? (await newPage(test)).page : await newTab(context);
  await page.goto(`${test.url}#/publish`);
  await page.getByRole('textbox', { name: 'App', exact: true }).fill('rtc');
  await page.getByRole('textbox', { name: 'Stream', exact: true }).fill(name);
  await page.getByTestId(`source-${source}`).click();
  await page.getByLabel('Codec').selectOption(codec);
  await page.getByRole('button', { name: 'Publish', exact: true }).click();
  await onAir(page);
  return page;
}

async function onAir(page) {
  const state = page.getByTestId('publish-state');
  await until('the browser is on air', async () => (await state.getAttribute('data-phase')) === 'live').catch(async (error) => {
    throw new Error(`${error.message}; it says: ${await state.innerText()}`);
  });
  await until('frames are encoded', async () => ((await report(page, 'outbound-rtp', 'video'))?.framesEncoded ?? 0) > 5);
}

async function watch(test, name, context) {
  const page = context === undefined ? (await newPage(test)).page : await newTab(context);
  await page.goto(`${test.url}#/watch/rtc/${name}`);
  return page;
}

/** A moving picture of many colours, by WebRTC, and audio that is not silence. */
async function expectRtcPlayback(page, { audio = true } = {}) {
  const played = await expectPlayback(page);
  if ((await page.getByTestId('transport-rtc').getAttribute('aria-pressed')) !== 'true') throw new Error('it plays, but not by WebRTC');
  if (audio) {
    // What is muted has no energy, whatever arrives.
    const unmute = page.getByRole('button', { name: 'Unmute' });
    if (await unmute.isVisible()) await unmute.click();
    await until('audio is heard', async () => ((await report(page, 'inbound-rtp', 'audio'))?.totalAudioEnergy ?? 0) > 0.0001).catch(async (error) => {
      throw new Error(`${error.message}; audio: ${JSON.stringify(await report(page, 'inbound-rtp', 'audio'))}`);
    });
  }
  return played;
}

function codecCheck(codec, spoken) {
  return async (test) => {
    const name = `codec-${codec}`;
    const publisher = await publish(test, name, { codec });
    const viewer = await watch(test, name);
    const played = await expectRtcPlayback(viewer);
    const figures = async () => viewer.locator('[data-stat=codec]').innerText();
    await until(`the figures name ${spoken}`, async () => (await figures()).startsWith(spoken));
    const sent = await report(publisher, 'outbound-rtp', 'video');
    const got = await report(viewer, 'inbound-rtp', 'video');
    const transport = await report(viewer, 'transport');
    const incoming = await report(publisher, 'transport');
    return `${sent.encoderImplementation} to ${got.decoderImplementation}, ${played.width}x${played.height}, ${got.framesDecoded} frames, ${got.framesDropped} dropped; viewer ${transport.tlsVersion} ${transport.srtpCipher}, publisher ${incoming.tlsVersion} ${incoming.srtpCipher}`;
  };
}

/** The second viewer is served from what the server holds: the publisher makes no key frame for it. */
async function lateViewerSeesAPictureAtOnce(test) {
  const publisher = await publish(test, 'late');
  const first = await watch(test, 'late');
  await expectRtcPlayback(first);
  const keyFrames = async () => (await report(publisher, 'outbound-rtp', 'video')).keyFramesEncoded;
  const before = await keyFrames();
  const second = await watch(test, 'late');
  const firstFrame = await until('the second viewer has a picture', async () => {
    const frames = (await report(second, 'inbound-rtp', 'video'))?.framesDecoded ?? 0;
    return frames > 0 ? { frames } : null;
  });
  const after = await keyFrames();
  await expectRtcPlayback(second);
  const shown = await second.evaluate(() => performance.now());
  return `${firstFrame.frames} frames at the first look, ${after - before} key frames made meanwhile, page open for ${Math.round(shown)} ms`;
}

async function testPictureMeasuresTheDelay(test) {
  const { context, page } = await newPage(test);
  await page.close();
  const publisher = await publish(test, 'stamped', { source: 'test', context });
  const viewer = await watch(test, 'stamped', context);
  await expectRtcPlayback(viewer);
  await until('the delay is measured', async () => (await viewer.locator('.figure', { hasText: 'Glass to glass, measured' }).count()) === 1);
  const delay = await until('the delay is shown', async () => {
    const text = await viewer.locator('[data-stat=delay]').innerText();
    return /\d/.test(text) ? text : '';
  });
  await until('the publisher sees the round trip to the server', async () => /\d/.test(await publisher.locator('[data-stat=sent-rtt]').innerText()));
  return `${delay.replaceAll('\u00a0', ' ')} glass to glass`;
}

/** Capture times travel with a camera's frames too, in a header extension that the server hands on. */
async function cameraDelayIsMeasured(test) {
  const { context, page } = await newPage(test);
  await page.close();
  await publish(test, 'camera-delay', { context });
  const viewer = await watch(test, 'camera-delay', context);
  await expectRtcPlayback(viewer);
  await until('the delay is measured', async () => (await viewer.locator('.figure', { hasText: 'Glass to glass, measured' }).count()) === 1);
  return (await viewer.locator('[data-stat=delay]').innerText()).replaceAll('\u00a0', ' ');
}

async function screenIsPublished(test) {
  await publish(test, 'screen', { source: 'screen' });
  await expectRtcPlayback(await watch(test, 'screen'), { audio: false });
}

async function sourceIsSwitchedOnAir(test) {
  const publisher = await publish(test, 'switch', { source: 'test' });
  const viewer = await watch(test, 'switch');
  await expectRtcPlayback(viewer);
  await publisher.getByTestId('source-camera').click();
  await until('the preview shows the camera', async () => (await publisher.locator('[data-testid=preview] video.is-mirrored').count()) === 1);
  await expectRtcPlayback(viewer);
  await until('it was no new session', async () => (await viewer.locator('[data-stat=reconnects]').innerText()) === '0');
  if ((await publisher.getByTestId('publish-state').getAttribute('data-phase')) !== 'live') throw new Error('the publisher went off air');
}

/** Viewers keep their session while the publisher is away. */
async function viewersWaitForThePublisher(test) {
  const publisher = await publish(test, 'again');
  const viewer = await watch(test, 'again');
  await expectRtcPlayback(viewer);
  await publisher.getByRole('button', { name: 'Stop publishing' }).click();
  await until('the session of the publisher is gone', async () => {
    const { sessions } = await test.api('/sessions?role=publisher&limit=1000');
    return !sessions.some(({ stream }) => stream === 'rtc/again');
  });
  await until('the viewer says that it waits', async () => /publisher has left|Waiting for the publisher|Nobody publishes/.test((await videoState(viewer)).overlay));
  await publisher.getByRole('button', { name: 'Publish', exact: true }).click();
  await onAir(publisher);
  await until('the viewer plays again', async () => (await videoState(viewer)).phase === 'playing');
  await expectRtcPlayback(viewer);
  return `${await viewer.locator('[data-stat=reconnects]').innerText()} reconnects`;
}

async function kickedViewerComesBack(test) {
  await publish(test, 'kick');
  const viewer = await watch(test, 'kick');
  await expectRtcPlayback(viewer);
  const own = await until('the server lists the viewer', async () => {
    const { sessions } = await test.api('/sessions?role=player&limit=1000');
    return sessions.find(({ stream, protocol }) => stream === 'rtc/kick' && protocol === 'whep');
  });
  const response = await fetch(`${test.url}api/v1/sessions/${own.id}`, { method: 'DELETE', headers: { origin: new URL(test.url).origin } });
  if (response.status !== 204) throw new Error(`kicking answered ${response.status}`);
  await until('the player counts a reconnect', async () => Number(await viewer.locator('[data-stat=reconnects]').innerText()) >= 1);
  await expectRtcPlayback(viewer);
}

async function leavingThePageEndsTheSession(test) {
  await publish(test, 'leave');
  const viewer = await watch(test, 'leave');
  await expectRtcPlayback(viewer);
  const listed = async () => {
    const { sessions } = await test.api('/sessions?role=player&limit=1000');
    return sessions.some(({ stream }) => stream === 'rtc/leave');
  };
  await until('the server lists the viewer', listed);
  await viewer.goto('about:blank');
  await until('the viewer is gone at once', async () => !(await listed()), 8_000);
}

/** The demo channel is published by RTMP: the watch page plays it by WebRTC all the same. */
async function rtmpPlaysByWebRtc(test) {
  const { page } = await newPage(test);
  await page.goto(`${test.url}#/watch/${(await test.api('/server')).demo_stream}`);
  const played = await expectRtcPlayback(page);
  if ((await page.getByTestId('fallback').count()) !== 0) throw new Error(await page.getByTestId('fallback').innerText());
  return `${played.width}x${played.height}, ${(await page.locator('[data-stat=codec]').innerText()).replaceAll('\u00a0', ' ')}`;
}

/** What a bridge costs and adds is on the stream's page while it runs. */
async function bridgeIsShown(test) {
  const { page } = await newPage(test);
  await page.goto(`${test.url}#/stream/${(await test.api('/server')).demo_stream}`);
  await expectRtcPlayback(page);
  const words = async (stat) => (await page.locator(`[data-stat=bridge-${stat}]`).innerText()).replaceAll('\u00a0', ' ');
  const cost = await until('the cost of the bridge is shown', async () => (/\d % of a core/.test(await words('cost')) ? words('cost') : ''));
  const delay = await until('the added delay is shown', async () => (/ms video · .*ms audio/.test(await words('delay')) ? words('delay') : ''));
  return `${cost}; ${delay}`;
}

/**
 * A stream the server does not play by WebRTC: the watch page finds out by asking, says why, and plays FLV.
 */
async function fallsBackToFlv(test) {
  const { page } = await newPage(test);
  const body = JSON.stringify({ error: { code: 'not_playable', message: 'the stream has B-frames' } });
  await page.route('**/whep/**', (route) => route.fulfill({ status: 406, contentType: 'application/json', body }));
  await page.goto(`${test.url}#/watch/${(await test.api('/server')).demo_stream}`);
  await expectPlayback(page);
  if ((await page.getByTestId('transport-http').getAttribute('aria-pressed')) !== 'true') throw new Error('it does not play by HTTP-FLV');
  const reason = await page.getByTestId('fallback').innerText();
  if (!reason.startsWith('Played as FLV, because:') || !reason.includes('the stream has B-frames')) throw new Error(`the reason reads: ${reason}`);
  return reason;
}

/** FLV chosen, but this browser's FLV player does not know VP8; and the choice outlasts the page. */
async function choiceIsRemembered(test) {
  const { context, page } = await newPage(test);
  await page.goto(`${test.url}#/watch/${(await test.api('/server')).demo_stream}`);
  await page.getByTestId('transport-ws').click();
  await until('WS is pressed', async () => (await page.getByTestId('transport-ws').getAttribute('aria-pressed')) === 'true');
  await expectPlayback(page);
  await publish(test, 'only-rtc', { codec: 'VP8' });
  const other = await watch(test, 'only-rtc', context);
  await expectRtcPlayback(other);
  if ((await other.locator('.segment.is-preferred').innerText()) !== 'WS') throw new Error('the choice was forgotten');
}

async function deniedPermissionIsExplained(test) {
  // With devices, but without anybody who allows them.
  const browser = await launch(['--use-fake-device-for-media-stream', '--deny-permission-prompts']);
  try {
    const { page } = await openPage(browser, test.url);
    await page.goto(`${test.url}#/publish`);
    await page.getByTestId('source-camera').click();
    await page.getByRole('button', { name: 'Publish', exact: true }).click();
    const problem = page.getByTestId('capture-problem');
    await problem.waitFor();
    const text = await problem.innerText();
    if (!text.includes('was not allowed to use the camera')) throw new Error(`it says: ${text}`);
  } finally {
    await browser.close();
  }
}

/** A name that is not local over plain HTTP: no camera, but still the test picture. */
async function insecurePageIsExplained(test) {
  const browser = await launch([`--host-resolver-rules=MAP insecure.example 127.0.0.1`]);
  try {
    const url = test.url.replace(/\/\/[^:/]+/, '//insecure.example');
    const { page } = await openPage(browser, url);
    await page.goto(`${url}#/publish`);
    await page.getByTestId('note-insecure').waitFor();
    if (await page.getByTestId('source-camera').isEnabled()) throw new Error('the camera can be chosen');
    await page.getByRole('button', { name: 'Preview', exact: true }).click();
    await until('the test picture is shown', () => page.evaluate(() => document.querySelector('[data-testid=preview] video').videoWidth > 0));
    // The server trusts unknown names with a token only, and says so.
    await page.getByRole('button', { name: 'Publish', exact: true }).click();
    await page.getByText('does not let you publish here without a valid token').waitFor();
  } finally {
    await browser.close();
  }
}

async function secondPublisherIsRefused(test) {
  await publish(test, 'taken');
  const { page } = await newPage(test);
  await page.goto(`${test.url}#/publish`);
  await page.getByRole('textbox', { name: 'App', exact: true }).fill('rtc');
  await page.getByRole('textbox', { name: 'Stream', exact: true }).fill('taken');
  await page.getByTestId('source-test').click();
  await page.getByRole('button', { name: 'Publish', exact: true }).click();
  await page.getByText('Somebody else publishes this stream.').waitFor();
}

/** Published by WebRTC, played as FLV: H.264 and Opus, which is what this browser's FLV player knows. */
async function whipPlaysAsFlv(test) {
  await publish(test, 'as-flv', { source: 'test', codec: 'H264' });
  const viewer = await watch(test, 'as-flv');
  for (const transport of ['http', 'ws']) {
    await viewer.getByTestId(`transport-${transport}`).click();
    await until(`${transport} is pressed`, async () => (await viewer.getByTestId(`transport-${transport}`).getAttribute('aria-pressed')) === 'true');
    await expectPlayback(viewer);
    if ((await viewer.getByTestId(`transport-${transport}`).getAttribute('aria-pressed')) !== 'true') throw new Error(`it plays, but not by ${transport}`);
  }
  const { bridge } = await test.api('/streams/rtc/as-flv');
  if (bridge?.direction !== 'webrtc_to_rtmp') throw new Error(`the bridge is ${JSON.stringify(bridge)}`);
  return `${bridge.video_frames} frames through the bridge, ${bridge.broken} broken or late`;
}

/**
 * Chosen or kept from the last visit, FLV is no dead end where it cannot carry what this browser would play.
 */
async function flvGivesWay(test) {
  await publish(test, 'no-flv', { source: 'test', codec: 'VP8' });
  const viewer = await watch(test, 'no-flv');
  await expectRtcPlayback(viewer);
  for (const transport of ['http', 'ws']) {
    await viewer.getByTestId(`transport-${transport}`).click();
    for (const visit of ['chosen', 'kept']) {
      if (visit === 'kept') await viewer.reload();
      const reason = viewer.getByTestId('fallback');
      const words = 'cannot show the stream';
      await until(`${transport} (${visit}) gives way with the reason`, async () => (await reason.count()) === 1 && (await reason.innerText()).includes(words));
      await expectRtcPlayback(viewer);
    }
  }
  await until('WHEP is listed', async () => (await viewer.getByTestId('watch-whep').count()) === 1);
}

/** The player of the stream shown before does not stay behind. */
async function anotherStreamIsOneSession(test) {
  await publish(test, 'other', { source: 'test' });
  const { page } = await newPage(test);
  await page.goto(test.url);
  await expectPlayback(page);
  await page.getByRole('button', { name: 'Show rtc/other' }).click();
  await expectRtcPlayback(page);
  const players = async () => (await test.api('/sessions?stream=rtc/other&role=player')).total;
  if ((await players()) !== 1) throw new Error(`one page has ${await players()} sessions`);
}

export const RTC_CHECKS = [
  ['H.264 by WHIP and WHEP', codecCheck('H264', 'H.264')],
  ['VP8 by WHIP and WHEP', codecCheck('VP8', 'VP8')],
  ['VP9 by WHIP and WHEP', codecCheck('VP9', 'VP9')],
  ['AV1 by WHIP and WHEP', codecCheck('AV1', 'AV1')],
  ['a viewer who comes late sees a picture at once', lateViewerSeesAPictureAtOnce],
  ['the test picture measures the delay', testPictureMeasuresTheDelay],
  ['the delay of a camera is measured in the same browser', cameraDelayIsMeasured],
  ['a screen is published', screenIsPublished],
  ['the source is switched on air', sourceIsSwitchedOnAir],
  ['viewers wait for a publisher who comes back', viewersWaitForThePublisher],
  ['a viewer who was kicked comes back', kickedViewerComesBack],
  ['leaving the page ends the session', leavingThePageEndsTheSession],
  ['a stream published by RTMP plays by WebRTC', rtmpPlaysByWebRtc],
  ['the page of a stream shows what its bridge costs', bridgeIsShown],
  ['a stream that WebRTC cannot play falls back to FLV', fallsBackToFlv],
  ['a stream published by WHIP plays as FLV', whipPlaysAsFlv],
  ['the choice of a transport is remembered, and no obstacle', choiceIsRemembered],
  ['FLV chosen for VP8 gives way to WebRTC', flvGivesWay],
  ['another stream on the overview is one session', anotherStreamIsOneSession],
  ['a second publisher is refused with a reason', secondPublisherIsRefused],
  ['a denied permission is explained', deniedPermissionIsExplained],
  ['a page that did not come over HTTPS is explained', insecurePageIsExplained],
];
