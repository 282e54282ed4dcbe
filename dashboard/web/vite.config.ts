import { defineConfig } from 'vite'

export default defineConfig({
  // Inlined assets would be data: addresses, which the pages' policy allows for images alone.
  build: { outDir: '../pages/built', emptyOutDir: true, assetsInlineLimit: 0, modulePreload: { polyfill: false }, chunkSizeWarningLimit: 1500, license: { fileName: 'licenses.md' } },
})
