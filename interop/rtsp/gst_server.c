/* GStreamer's RTSP server with one stream, which it plays from an RTMP server.
 *
 * usage: gst_server RTMP_URL RTSP_PORT PATH
 *
 * What its example `test-launch` does, but at an address and a port that are given, and with one pipeline
 * for all clients: H.264 and AAC are taken out of FLV and put into RTP, nothing is decoded. The pipeline
 * begins with the first client, so the stream has to be there by then. The library has threads of its own.
 * Prints a line when it listens. Ends when it is killed.
 */
#include <gst/gst.h>
#include <gst/rtsp-server/rtsp-server.h>
#include <stdio.h>
#include <stdlib.h>

/* Queues of the default size, a second: the two tracks come from one connection. */
#define PIPELINE \
    "( rtmp2src location=\"%s\" do-timestamp=true ! flvdemux name=d" \
    "  d.video ! queue ! h264parse ! rtph264pay name=pay0 pt=96 config-interval=-1 aggregate-mode=none" \
    "  d.audio ! queue ! aacparse ! rtpmp4gpay name=pay1 pt=97 )"

int main(int count, char **words)
{
    GstRTSPServer *server;
    GstRTSPMountPoints *mounts;
    GstRTSPMediaFactory *factory;
    gchar *launch;

    gst_init(&count, &words);
    if (count != 4) {
        fprintf(stderr, "usage: gst_server RTMP_URL RTSP_PORT PATH\n");
        return 2;
    }
    factory = gst_rtsp_media_factory_new();
    launch = g_strdup_printf(PIPELINE, words[1]);
    gst_rtsp_media_factory_set_launch(factory, launch);
    g_free(launch);
    gst_rtsp_media_factory_set_shared(factory, TRUE);
    /* Frames go out when they come: 200 ms is what it waits for by itself. */
    gst_rtsp_media_factory_set_latency(factory, 0);

    server = gst_rtsp_server_new();
    gst_rtsp_server_set_address(server, "127.0.0.1");
    gst_rtsp_server_set_service(server, words[2]);
    /* All players come at once. */
    gst_rtsp_server_set_backlog(server, 1024);
    mounts = gst_rtsp_server_get_mount_points(server);
    gst_rtsp_mount_points_add_factory(mounts, words[3], factory);
    g_object_unref(mounts);
    if (gst_rtsp_server_attach(server, NULL) == 0) {
        fprintf(stderr, "port %s of 127.0.0.1 cannot be listened on\n", words[2]);
        return 1;
    }
    printf("listening\n");
    fflush(stdout);
    g_main_loop_run(g_main_loop_new(NULL, FALSE));
    return 0;
}
