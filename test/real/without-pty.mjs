// Preloaded by a test: a host on which node-pty could not be built.
import { registerHooks } from 'node:module'

registerHooks({
  resolve(specifier, context, next) {
    if (specifier === 'node-pty') throw new Error('node-pty is not installed')
    return next(specifier, context)
  },
})
