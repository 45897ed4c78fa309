/**
 * Build of the console: hashed files under /assets, nothing inlined, so that a strict
 * Content-Security-Policy holds. `vite` (development) passes API and media requests on to a running
 * server or to dev/mock-server.mjs, named by MILLSTREAM_URL.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { defineConfig, type Plugin } from 'vite';

const target = process.env['MILLSTREAM_URL'] ?? 'http://127.0.0.1:8080';

const LICENCES = 'assets/licences.md';

/** Packages in the code of threads, which is bundled by itself and so not seen by `build.license`. */
const inThreads = new Set<string>();

function notePackages(): Plugin {
  return {
    name: 'note-packages-of-threads',
    generateBundle(_options, bundle) {
      for (const output of Object.values(bundle)) {
        for (const id of output.type === 'chunk' ? Object.keys(output.modules) : []) {
          const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1];
          if (found !== undefined) inThreads.add(found);
        }
      }
    },
  };
}

/** Adds their licences to those of the page. */
function licencesOfThreads(): Plugin {
  return {
    name: 'licences-of-threads',
    apply: 'build',
    writeBundle({ dir }) {
      for (const name of [...inThreads].sort()) {
        const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8')) as { version: string; license: string };
        appendFileSync(`${dir}/${LICENCES}`, `\n## ${name} - ${version} (${license})\n\n${readFileSync(`node_modules/${name}/LICENSE`, 'utf8')}`);
      }
    },
  };
}

export default defineConfig({
  plugins: [licencesOfThreads()],
  worker: { plugins: () => [notePackages()] },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // mpegts.js is the one big file; it is loaded only when a picture is shown.
    chunkSizeWarningLimit: 400,
    license: { fileName: LICENCES },
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
