/**
 * One WHIP or WHEP session in this browser: RTCPeerConnection and HTTP resource, from offer to end.
 *
 * The offer goes out at once and without candidates; gathering begins when the answer is there, because only
 * then the server's ICE servers are known. An ICE-lite server has no use for our candidates; any other gets
 * them by `PATCH`. An interrupted path is repaired by an ICE restart; when that fails the session is over,
 * and whoever owns it opens another.
 */
import { type Trouble, troubleOf } from '../lib/trouble';
import { ENDED, LOST, NO_PATH, NO_WEBRTC, type Role } from './errors';
import { LayerWatch, type Layers } from './layers';
import { Resource } from './resource';
import { hasFlag, iceCredentials, readFragment, withFragment, withStereo, writeFragment } from './sdp';

/** `interrupted`: the path broke and may come back. */
export type Link = 'connecting' | 'connected' | 'interrupted';

export interface ConnectionOptions {
  role: Role;
  /** WHIP or WHEP endpoint, absolute. */
  url: string;
  token: string;
  /** Adds the transceivers. */
  prepare: (peer: RTCPeerConnection) => void;
  /** What is changed in the server's answer before the browser gets it. */
  adapt?: (answer: string) => string;
  onLink: (link: Link) => void;
  /** Of a session that plays: which layers there are, and which one comes. */
  onLayers?: (layers: Layers) => void;
  /** The session is over and has been closed. Called at most once, and not after `close`. */
  onTrouble: (trouble: Trouble) => void;
  makePeer?: (configuration: RTCConfiguration) => RTCPeerConnection;
  fetch?: typeof fetch;
}

/** Longest from the answer to the first connected moment. */
const CONNECT_MS = 12_000;
/** A path that is gone for this long is restarted. */
const RESTART_AFTER_MS = 2_500;
/** Longest a restart may take. */
const RESTART_MS = 10_000;
/** Candidates found within this time share one request. */
const TRICKLE_MS = 120;

export class Connection {
  readonly #options: ConnectionOptions;
  #peer: RTCPeerConnection | null = null;
  #resource: Resource | null = null;
  #layers: LayerWatch | null = null;
  #offer = '';
  #answer = '';
  #wasConnected = false;
  #closed = false;
  #restarting = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #trickleTimer: ReturnType<typeof setTimeout> | undefined;
  #candidates: string[] = [];

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** Null before `open` and after the end. */
  get peer(): RTCPeerConnection | null {
    return this.#closed ? null : this.#peer;
  }

  async open(): Promise<void> {
    try {
      await this.#negotiate();
    } catch (cause) {
      this.#end(troubleOf(cause));
    }
  }

  /** Asks for a layer; null leaves the choice to the server. False if it is not given. */
  async chooseLayer(name: string | null): Promise<boolean> {
    return !this.#closed && this.#layers !== null && this.#layers.choose(name);
  }

  /** Ends the session. `leaving`: the page goes away. */
  close(leaving = false): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#layers?.close();
    clearTimeout(this.#timer);
    clearTimeout(this.#trickleTimer);
    globalThis.removeEventListener?.('pagehide', this.#onPageHide);
    this.#resource?.close(leaving);
    this.#peer?.close();
  }

  async #negotiate(): Promise<void> {
    const makePeer = this.#options.makePeer ?? browserPeer();
    if (makePeer === null) return this.#end(NO_WEBRTC);
    const peer = makePeer({ bundlePolicy: 'max-bundle' });
    this.#peer = peer;
    this.#options.onLink('connecting');
    this.#options.prepare(peer);
    const { role, url, token, fetch } = this.#options;
    const offer = await peer.createOffer();
    this.#offer = withStereo(offer.sdp ?? '');
    const opened = await Resource.open({
      role,
      url,
      token,
      offer: this.#offer,
      ...(fetch === undefined ? {} : { fetch }),
    });
    this.#resource = opened.resource;
    if (this.#closed) return opened.resource.close();
    const { onLayers } = this.#options;
    if (onLayers !== undefined) {
      const { extensions } = opened;
      this.#layers = new LayerWatch({ extensions, token, onLayers, ...(fetch === undefined ? {} : { fetch }) });
    }
    globalThis.addEventListener?.('pagehide', this.#onPageHide);
    this.#answer = this.#options.adapt?.(opened.answer) ?? opened.answer;
    if (opened.iceServers.length > 0)
      peer.setConfiguration({ ...peer.getConfiguration(), iceServers: opened.iceServers });
    this.#follow(peer);
    await peer.setLocalDescription({ type: 'offer', sdp: this.#offer });
    await peer.setRemoteDescription({ type: 'answer', sdp: this.#answer });
    if (this.#closed || this.#wasConnected) return;
    this.#timer = setTimeout(() => this.#end(NO_PATH), CONNECT_MS);
  }

  #follow(peer: RTCPeerConnection): void {
    peer.addEventListener('connectionstatechange', () => this.#connectionChanged(peer));
    peer.addEventListener('icecandidate', ({ candidate }) => {
      if (!hasFlag(this.#answer, 'ice-lite')) this.#trickle(candidate);
    });
  }

  #connectionChanged(peer: RTCPeerConnection): void {
    if (this.#closed) return;
    switch (peer.connectionState) {
      case 'connected':
        clearTimeout(this.#timer);
        if (!this.#wasConnected) this.#followEnd(peer);
        this.#wasConnected = true;
        this.#layers?.open();
        this.#restarting = false;
        this.#options.onLink('connected');
        break;
      case 'disconnected':
        this.#interrupted(RESTART_AFTER_MS);
        break;
      case 'failed':
        if (!this.#wasConnected) this.#end(NO_PATH);
        else this.#interrupted(0);
        break;
      default:
    }
  }

  /** The server says goodbye on the encrypted channel; the peer connection itself only notices silence. */
  #followEnd(peer: RTCPeerConnection): void {
    const transport = [...peer.getReceivers(), ...peer.getSenders()].find((end) => end.transport)?.transport;
    transport?.addEventListener('statechange', () => {
      if (transport.state === 'closed' || transport.state === 'failed') this.#end(ENDED);
    });
  }

  #interrupted(delayMs: number): void {
    if (this.#restarting) return;
    this.#options.onLink('interrupted');
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#restart(), delayMs);
  }

  async #restart(): Promise<void> {
    const peer = this.#peer;
    if (this.#closed || peer === null) return;
    this.#restarting = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#end(LOST), RESTART_MS);
    try {
      const offer = await peer.createOffer({ iceRestart: true });
      const sdp = withStereo(offer.sdp ?? '');
      const own = iceCredentials(sdp);
      if (own === null || this.#resource === null) return this.#end(LOST);
      const text = await this.#resource.restart(writeFragment(sdp, { ...own, candidates: [], end: false }));
      const theirs = text === null ? null : readFragment(text);
      if (this.#closed) return;
      if (theirs === null) return this.#end(LOST);
      this.#offer = sdp;
      this.#answer = withFragment(this.#answer, theirs);
      await peer.setLocalDescription({ type: 'offer', sdp });
      await peer.setRemoteDescription({ type: 'answer', sdp: this.#answer });
    } catch {
      this.#end(LOST);
    }
  }

  #trickle(candidate: RTCIceCandidate | null): void {
    const end = candidate === null || candidate.candidate === '';
    if (!end) this.#candidates.push(candidate.candidate);
    clearTimeout(this.#trickleTimer);
    const send = () => {
      const own = iceCredentials(this.#offer);
      if (this.#closed || own === null) return;
      const candidates = this.#candidates.splice(0);
      void this.#resource?.trickle(writeFragment(this.#offer, { ...own, candidates, end }));
    };
    if (end) send();
    else this.#trickleTimer = setTimeout(send, TRICKLE_MS);
  }

  readonly #onPageHide = (): void => this.close(true);

  #end(trouble: Trouble): void {
    if (this.#closed) return;
    this.close();
    this.#options.onTrouble(trouble);
  }
}

/** Null where the browser, or a policy in it, has no WebRTC. */
function browserPeer(): ((configuration: RTCConfiguration) => RTCPeerConnection) | null {
  if (typeof RTCPeerConnection === 'undefined') return null;
  return (configuration) => new RTCPeerConnection(configuration);
}
