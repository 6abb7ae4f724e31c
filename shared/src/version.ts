// The release this tree builds: shown by every response, every client and every agent.
export const VERSION = '1.15.0'
