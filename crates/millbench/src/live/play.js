// Plays by WHEP in an empty page: a video, and the connection for the figures.
(async (url, token) => {
  const authorization = token === '' ? {} : { Authorization: `Bearer ${token}` };
  const peer = new RTCPeerConnection();
  const media = new MediaStream();
  const video = document.createElement('video');
  Object.assign(video, { muted: true, autoplay: true });
  Object.assign(video.style, { width: '100%', background: '#000' });
  document.body.replaceChildren(video);
  peer.ontrack = ({ track }) => {
    media.addTrack(track);
    video.srcObject = media;
  };
  for (const kind of ['audio', 'video']) peer.addTransceiver(kind, { direction: 'recvonly' });
  await peer.setLocalDescription();
  const headers = { 'Content-Type': 'application/sdp', ...authorization };
  const response = await fetch(url, { method: 'POST', headers, body: peer.localDescription.sdp });
  if (response.status !== 201) {
    peer.close();
    throw new Error(`the server answered ${response.status} to the browser`);
  }
  const session = new URL(response.headers.get('location') ?? '', url);
  await peer.setRemoteDescription({ type: 'answer', sdp: await response.text() });
  window.millbench = {
    peer,
    end: () => fetch(session, { method: 'DELETE', headers: authorization }).catch(() => null),
  };
})
