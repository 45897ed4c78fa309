// What the video of the page shows: by the connection where it is ours, else by the element.
(async () => {
  const video = document.querySelector('video');
  if (video === null) return null;
  const quality = video.getVideoPlaybackQuality();
  const seen = {
    state: video.readyState >= 2 ? 'playing' : 'waiting',
    width: video.videoWidth,
    height: video.videoHeight,
    decoded: quality.totalVideoFrames,
    dropped: quality.droppedVideoFrames,
  };
  const peer = window.millbench?.peer;
  if (peer !== undefined) {
    if (peer.connectionState !== 'connected') seen.state = peer.connectionState;
    for (const report of (await peer.getStats()).values()) {
      if (report.type !== 'inbound-rtp' || report.kind !== 'video') continue;
      seen.decoded = report.framesDecoded;
      seen.dropped = report.framesDropped;
      seen.lost = report.packetsLost;
      seen.freezes = report.freezeCount;
    }
  }
  return seen;
})()
