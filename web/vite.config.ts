/**
 * Build of the console: hashed files under /assets, nothing inlined, so that a strict
 * Content-Security-Policy holds. `vite` (development) passes API and media requests on to a running
 * server or to dev/mock-server.mjs, named by MILLSTREAM_URL.
 */
import { defineConfig } from 'vite';

const target = process.env['MILLSTREAM_URL'] ?? 'http://127.0.0.1:8080';

export default defineConfig({
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // mpegts.js is the one big file; it is loaded only when a picture is shown.
    chunkSizeWarningLimit: 400,
    license: { fileName: 'assets/licences.md' },
  },
  server: {
    proxy: {
      // The server compares Origin with Host before it changes anything.
      '/api': { target, changeOrigin: false, ws: true },
      '^/(whip|whep|rtc)/': { target, changeOrigin: false },
      '^/[^@].*\\.flv': { target, changeOrigin: false, ws: true },
    },
  },
});
