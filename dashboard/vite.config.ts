// The dashboard's build: static files that the control plane serves as they are. Nothing inline but the theme script,
// nothing from elsewhere, one style sheet, so that the strict Content-Security-Policy holds.
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react()],
  logLevel: 'warn',
  build: {
    target: 'es2024',
    // light-dark() stays as written, so that a part of a page can have the other theme
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  worker: { format: 'es' },
})
