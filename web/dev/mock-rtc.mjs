/**
 * WHIP and WHEP for the stand-in server: a headless Chromium is the media server.
 *
 * Each publisher is a peer connection in its page, each viewer another one that sends on what the publisher's
 * receivers give: decoded and encoded again, which is slow and good enough to look at. Unlike Millstream it
 * is a full ICE peer, so it needs the candidates that the console trickles.
 */
import { randomBytes } from 'node:crypto';
import { chromium } from 'playwright-core';

const FLAGS = ['--headless=new', '--no-sandbox', '--disable-gpu', '--autoplay-policy=no-user-gesture-required'];

/** What runs in the page; takes text, gives text. */
function relay() {
  const published = new Map();
  const sessions = new Map();
  const gathered = (peer) =>
    new Promise((resolve) => {
      const done = () => peer.iceGatheringState === 'complete' && resolve();
      peer.addEventListener('icegatheringstatechange', done);
      done();
    });
  const answer = async (peer) => {
    await peer.setLocalDescription(await peer.createAnswer());
    await gathered(peer);
    return peer.localDescription.sdp;
  };
  const changed = (sdp, fragment) => {
    const of = (name) => new RegExp(`^a=${name}:(.*?)\r?$`, 'm').exec(fragment)?.[1];
    return sdp.replace(/^a=ice-ufrag:.*?(\r?)$/gm, `a=ice-ufrag:${of('ice-ufrag')}$1`).replace(/^a=ice-pwd:.*?(\r?)$/gm, `a=ice-pwd:${of('ice-pwd')}$1`);
  };
  window.millstream = {
    async publish(id, key, offer) {
      if (published.has(key)) return { status: 409, message: `${key} is being published` };
      const peer = new RTCPeerConnection();
      published.set(key, peer);
      sessions.set(id, { peer, offer, end: () => published.delete(key) });
      await peer.setRemoteDescription({ type: 'offer', sdp: offer });
      // Audio of a track that nobody listens to is not decoded, and could not be sent on.
      const listener = new Audio();
      listener.muted = true;
      listener.srcObject = new MediaStream(peer.getReceivers().map(({ track }) => track));
      void listener.play();
      return { status: 201, answer: await answer(peer) };
    },
    async play(id, key, offer) {
      const source = published.get(key);
      if (source === undefined) return { status: 409, message: 'nobody publishes this stream' };
      const peer = new RTCPeerConnection();
      sessions.set(id, { peer, offer, end: () => undefined });
      await peer.setRemoteDescription({ type: 'offer', sdp: offer });
      for (const { track } of source.getReceivers()) peer.addTrack(track, new MediaStream([track]));
      return { status: 201, answer: await answer(peer) };
    },
    async patch(id, fragment) {
      const session = sessions.get(id);
      if (session === undefined) return { status: 404, message: 'no such session' };
      const offer = changed(session.offer, fragment);
      const restart = offer !== session.offer;
      session.offer = offer;
      if (restart) await session.peer.setRemoteDescription({ type: 'offer', sdp: offer });
      for (const [, candidate] of fragment.matchAll(/^a=(candidate:.*?)\r?$/gm)) await session.peer.addIceCandidate({ candidate, sdpMLineIndex: 0 });
      return restart ? { status: 200, answer: await answer(session.peer) } : { status: 204 };
    },
    end(id) {
      const session = sessions.get(id);
      session?.peer.close();
      session?.end();
      return { status: sessions.delete(id) ? 200 : 404 };
    },
    keys: () => [...published.keys()],
  };
}

/** Answers WHIP and WHEP requests. `token`: what publishers and players have to show, if anything. */
export async function startRtc({ token = null } = {}) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: FLAGS, handleSIGINT: false, handleSIGTERM: false });
  const page = await browser.newPage();
  await page.evaluate(relay);
  const call = (name, ...values) => page.evaluate(([method, given]) => window.millstream[method](...given), [name, values]);

  async function handle(request, response, path) {
    const refuse = (status, message) => {
      response.writeHead(status, { 'content-type': 'application/json', ...(status === 409 ? { 'retry-after': '2' } : {}) });
      response.end(JSON.stringify({ error: { code: 'refused', message } }));
    };
    if (token !== null && request.headers.authorization !== `Bearer ${token}`) return refuse(401, 'a token is required');
    let body = '';
    for await (const part of request) body += part;
    const [, kind, key] = /^\/(whip|whep|rtc\/session)\/(.+)$/.exec(path) ?? [];
    if (kind === 'rtc/session') {
      const result = await call(request.method === 'DELETE' ? 'end' : 'patch', key, body);
      if (result.status >= 400) return refuse(result.status, result.message ?? 'no such session');
      response.writeHead(result.status, result.answer ? { 'content-type': 'application/trickle-ice-sdpfrag', etag: `"${randomBytes(4).toString('hex')}"` } : {});
      return response.end(result.answer);
    }
    if (request.method !== 'POST') return refuse(405, 'POST an offer');
    const id = randomBytes(16).toString('hex');
    const result = await call(kind === 'whip' ? 'publish' : 'play', id, decodeURIComponent(key), body);
    if (result.status !== 201) return refuse(result.status, result.message);
    response.writeHead(201, { 'content-type': 'application/sdp', location: `/rtc/session/${id}`, etag: `"${id.slice(0, 8)}"`, 'accept-patch': 'application/trickle-ice-sdpfrag' });
    return response.end(result.answer);
  }

  return {
    handle: (request, response, path) =>
      handle(request, response, path).catch((error) => {
        if (!response.headersSent) response.writeHead(500, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ error: { code: 'mock', message: String(error) } }));
      }),
    /** `app/name` of what is published. */
    keys: () => call('keys'),
    close: () => browser.close(),
  };
}
