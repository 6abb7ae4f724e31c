// The dashboard's build: static files that the control plane serves as they are. Nothing inline but the theme script,
// nothing from elsewhere, style sheets as files, so that the strict Content-Security-Policy holds.
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react()],
  // React has this hook itself
  resolve: { alias: [{ find: /^use-sync-external-store\/shim$/, replacement: 'react' }] },
  logLevel: 'warn',
  build: {
    target: 'es2024',
    // light-dark() stays as written, so that a part of a page can have the other theme
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // every page needs these: in one file they take fewer bytes than in several, and its style sheet comes first, so
        // that the order of the layers is known before any rule
        codeSplitting: {
          groups: [
            {
              name: 'base',
              test: /node_modules.(?:\.pnpm.)?(?:react|scheduler|use-sync|@tanstack.(?:react-)?(?:query|router|store|history)|@trpc)|dashboard.src.(?:api|stores|query-options|session)\.ts|dashboard.src.styles|dashboard.src.components.(?:act|button|copy|dialog|icon|loading|page|states|status|time)/,
            },
          ],
        },
      },
    },
  },
  worker: { format: 'es' },
})
