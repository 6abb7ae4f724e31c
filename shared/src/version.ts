// The release this tree builds, from package.json at the top: shown by every response, every client and every agent.
import manifest from '../../package.json' with { type: 'json' }

export const VERSION: string = manifest.version
