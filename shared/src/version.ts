// The release that this tree builds, from package.json at the top. Every response, client and agent shows it.
import manifest from '../../package.json' with { type: 'json' }

export const VERSION: string = manifest.version
