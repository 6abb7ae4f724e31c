// `copy`: files between the user and a service, as a tar archive. The archive is made and unpacked inside the container,
// or as the environment's account in its own view of the server, by programs that are there. So links and names that
// the environment planted lead nowhere that a shell of this user could not reach, and the agent itself opens no file.
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import type { Output } from '../sessions/output.ts'
import { type CopyVerb, NOT_AVAILABLE, type Verb } from './commands.ts'
import type { Work } from './work.ts'

const NEEDS = [
  'say() { echo "berth: $1" >&2; exit 44; }',
  'command -v tar >/dev/null 2>&1 || say "The image has no tar, so nothing can be copied."',
].join('\n')

/** `$1`: the path. A folder is packed as `.`, a file by its name; a link at the path itself is followed. */
const FROM = `${NEEDS}
[ -e "$1" ] || say "$1 does not exist."
if [ -d "$1" ]; then cd -- "$1" && exec tar -cf - .; exit 1; fi
[ -f "$1" ] || say "$1 is neither a file nor a folder."
case $1 in */*) cd -- "\${1%/*}/" || exit 1 ;; esac
exec tar -chf - "./\${1##*/}"`

/** Into an existing folder under the name `$2`; otherwise to the path itself, whose folder must exist. */
const PLACE = `${NEEDS}
if [ -d "$1" ]; then cd -- "$1" || exit 1; set -- "./$2"
else
  case $1 in
    */) say "The folder $1 does not exist." ;;
    */*) cd -- "\${1%/*}/" 2>/dev/null || say "The folder \${1%/*}/ does not exist."; set -- "./\${1##*/}" ;;
    *) set -- "./$1" ;;
  esac
fi`

/** A file replaces the former one when it has arrived completely. The archive calls it `file`. */
const FILE = `${PLACE}
[ ! -d "$1" ] || say "$1 is a folder."
t=$(mktemp -d ./.berth-copy-XXXXXX) || exit 1
trap 'rm -rf -- "$t"' EXIT
trap 'exit 1' HUP TERM
tar -xof - -C "$t" && mv -f -- "$t/file" "$1"`

const FOLDER = `${PLACE}
mkdir -p -- "$1" && cd -- "$1" && exec tar -xof -`

const SCRIPTS = { from: FROM, file: FILE, folder: FOLDER }

export const scriptOf = ({
  service,
  does,
  path,
  name,
}: CopyVerb): Extract<Verb, { verb: 'exec' }> => ({
  verb: 'exec',
  service,
  argv: ['/bin/sh', '-c', SCRIPTS[does], 'berth-copy', path, name],
})

/** Ends the copy at its largest size, in either direction. */
export async function limitBytes(
  start: (output: Output) => Promise<Work>,
  output: Output,
): Promise<Work> {
  let left = SSH_SESSIONS.copyBytes
  const tooLarge = Promise.withResolvers<{ code: number; message: string }>()
  const count = (bytes: number): boolean => {
    left -= bytes
    if (left >= 0) return true
    const message = `A copy has at most ${SSH_SESSIONS.copyBytes / 1_024 ** 3} GiB.`
    tooLarge.resolve({ code: NOT_AVAILABLE, message })
    return false
  }
  const work = await start({
    async write(kind, bytes) {
      if (count(bytes.length)) await output.write(kind, bytes)
    },
  })
  const stopped = tooLarge.promise.then(async (ending) => {
    await work.end()
    return ending
  })
  return {
    ...work,
    input: (chunk) => !count(chunk.length) || work.input(chunk),
    done: Promise.race([work.done, stopped]),
  }
}
