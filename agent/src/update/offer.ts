// Whether an offered version is installed. PURE but for the signature's arithmetic: the release's key decides, so a
// control plane can offer and not forge.
import {
  type AgentManifest,
  compareVersions,
  isSignedBy,
  type ReleaseFacts,
  readAgentManifest,
} from '@berth/shared/release'

interface OfferFacts {
  manifest: Uint8Array
  signatures: readonly Uint8Array[]
  /** The public key that this agent was installed with. */
  key: string
  own: ReleaseFacts
  controlPlane: string
  platform: string
}

type Answer =
  | { kind: 'take'; manifest: AgentManifest; file: AgentManifest['platforms'][string] }
  | { kind: 'refused'; message: string }

const refused = (message: string): Answer => ({ kind: 'refused', message })

export function answerOffer(o: OfferFacts): Answer {
  if (!o.signatures.some((signature) => isSignedBy(o.key, o.manifest, signature))) {
    return refused(
      'The manifest is not signed with the key that this agent was installed with; nothing was changed.',
    )
  }
  let manifest: AgentManifest
  try {
    manifest = readAgentManifest(o.manifest)
  } catch (error) {
    return refused((error as Error).message)
  }
  const { version, counter } = manifest
  if (counter <= o.own.counter) {
    return refused(
      `Version ${version} was released before ${o.own.version}, which runs here; an agent never returns to an older release by an offer.`,
    )
  }
  if (compareVersions(o.controlPlane, manifest.minimum_control_plane) < 0) {
    return refused(
      `Version ${version} needs a control plane of ${manifest.minimum_control_plane} or later; this one is ${o.controlPlane}.`,
    )
  }
  const file = manifest.platforms[o.platform]
  return file
    ? { kind: 'take', manifest, file }
    : refused(`Version ${version} has no package for ${o.platform}.`)
}
