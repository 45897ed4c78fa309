// Clients of the benchmark of adaptation (scripts/bench adapt --real), with Pion.
//
//	adapt publish [flags] URL   sends layers of a simulcast, or one, as they are in files; a key frame when asked for one
//	adapt watch [flags] URL     plays, and says when which packet and picture came
//	adapt push [flags] URL      publishes what its congestion control (gcc) allows
//
// -through ADDRESS puts an address in place of the server's, which is how the bottleneck gets into the path.
// JSON objects are printed, one a line: `connected`, and `done` at the end, which is end of
// standard input or -seconds.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/webrtc/v4"
)

var (
	layers   = flag.String("layers", "", "files of H.264 with access unit delimiters, lowest first, by comma")
	audio    = flag.String("audio", "", "file of Opus (.ogg)")
	rate     = flag.Float64("rate", 25, "pictures a second")
	seconds  = flag.Float64("seconds", 0, "watch: time to play from the first packet on")
	through  = flag.String("through", "", "address and port to use in place of the server's")
	feedback = flag.Int("feedback-ms", 100, "watch: time between two reports of arrivals")
	most     = flag.Int("most", 6000, "push: most to send, kbit/s")
)

type facts map[string]any

var printing sync.Mutex

func say(event string, more facts) {
	printing.Lock()
	defer printing.Unlock()
	more["event"] = event
	line, _ := json.Marshal(more)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		say("failed", facts{"reason": err.Error()})
		os.Exit(1)
	}
}

var (
	audioCodec = webrtc.RTPCodecParameters{PayloadType: 111, RTPCodecCapability: webrtc.RTPCodecCapability{
		MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2, SDPFmtpLine: "minptime=10;useinbandfec=1",
	}}
	videoCodec = webrtc.RTPCodecParameters{PayloadType: 96, RTPCodecCapability: webrtc.RTPCodecCapability{
		MimeType: webrtc.MimeTypeH264, ClockRate: 90000,
		SDPFmtpLine: "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f",
	}}
	againCodec = webrtc.RTPCodecParameters{PayloadType: 97, RTPCodecCapability: webrtc.RTPCodecCapability{
		MimeType: webrtc.MimeTypeRTX, ClockRate: 90000, SDPFmtpLine: "apt=96",
	}}
)

// newPeer makes one with these interceptors; `configure` adds them, and what they negotiate.
func newPeer(configure func(*webrtc.MediaEngine, *interceptor.Registry)) *webrtc.PeerConnection {
	settings := webrtc.SettingEngine{}
	settings.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	settings.SetIncludeLoopbackCandidate(true)
	settings.SetIPFilter(net.IP.IsLoopback)
	engine := &webrtc.MediaEngine{}
	check(engine.RegisterCodec(videoCodec, webrtc.RTPCodecTypeVideo))
	check(engine.RegisterCodec(againCodec, webrtc.RTPCodecTypeVideo))
	check(engine.RegisterCodec(audioCodec, webrtc.RTPCodecTypeAudio))
	registry := &interceptor.Registry{}
	configure(engine, registry)
	peer, err := webrtc.NewAPI(
		webrtc.WithSettingEngine(settings), webrtc.WithMediaEngine(engine), webrtc.WithInterceptorRegistry(registry),
	).NewPeerConnection(webrtc.Configuration{})
	check(err)
	return peer
}

var (
	candidate = regexp.MustCompile(`(?mi)^(a=candidate:\S+ \d+ udp \d+) \S+ \d+ typ host.*?(\r?)$`)
	other     = regexp.MustCompile(`(?mi)^a=candidate:\S+ \d+ tcp .*\r?\n`)
)

// moved is an answer with the address `to` in place of the server's.
func moved(answer, to string) string {
	host, port, err := net.SplitHostPort(to)
	check(err)
	return candidate.ReplaceAllString(other.ReplaceAllString(answer, ""), "${1} "+host+" "+port+" typ host${2}")
}

// connect posts an offer with all candidates, and gives the URL of the session once there are keys.
func connect(peer *webrtc.PeerConnection, target string) string {
	done := make(chan struct{})
	var once sync.Once
	peer.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		switch state {
		case webrtc.PeerConnectionStateConnected:
			once.Do(func() { close(done) })
		case webrtc.PeerConnectionStateFailed:
			check(errors.New("the connection failed"))
		}
	})
	offer, err := peer.CreateOffer(nil)
	check(err)
	gathered := webrtc.GatheringCompletePromise(peer)
	check(peer.SetLocalDescription(offer))
	<-gathered
	var response *http.Response
	for asked := 0; ; asked++ {
		var err error
		response, err = http.Post(target, "application/sdp", strings.NewReader(peer.LocalDescription().SDP))
		check(err)
		// A publisher that has just begun: the server says when to ask again.
		after, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if response.StatusCode != http.StatusConflict || err != nil || asked == 5 {
			break
		}
		response.Body.Close()
		time.Sleep(time.Duration(after) * time.Second)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(err)
	answer := string(body)
	if response.StatusCode != http.StatusCreated {
		check(fmt.Errorf("%s: %s", response.Status, answer))
	}
	if *through != "" {
		answer = moved(answer, *through)
	}
	check(peer.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}))
	base, err := url.Parse(target)
	check(err)
	location, err := base.Parse(response.Header.Get("Location"))
	check(err)
	<-done
	say("connected", facts{"transport_cc": strings.Contains(answer, "transport-cc")})
	return location.String()
}

// end deletes the session first: DTLS's close_notify ends it as well, and then there is nothing
// left to delete.
func end(peer *webrtc.PeerConnection, session string) {
	request, err := http.NewRequest(http.MethodDelete, session, nil)
	check(err)
	response, err := http.DefaultClient.Do(request)
	check(err)
	response.Body.Close()
	check(peer.Close())
}

func main() {
	usage := func() {
		fmt.Fprintln(os.Stderr, "usage: adapt publish|watch|push [flags] URL")
		os.Exit(2)
	}
	if len(os.Args) < 3 {
		usage()
	}
	check(flag.CommandLine.Parse(os.Args[2:]))
	switch os.Args[1] {
	case "publish":
		publish(flag.Arg(0))
	case "watch":
		watch(flag.Arg(0))
	case "push":
		push(flag.Arg(0))
	default:
		usage()
	}
}
