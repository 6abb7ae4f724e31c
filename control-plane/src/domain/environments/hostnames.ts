// Who may use which host name. One owner a name; below a project's domain everything is that project's; the control
// plane's own name and what lies below it are nobody's, because a page there could set its cookies.

export const isBelow = (host: string, domain: string): boolean => host.endsWith(`.${domain}`)

export const isAtOrBelow = (host: string, domain: string): boolean =>
  host === domain || isBelow(host, domain)

/** shop.eu.example.com: eu.example.com, example.com. The last label alone is nobody's to claim. */
export function parentDomains(host: string): string[] {
  const labels = host.split('.')
  return labels.slice(1, -1).map((_, i) => labels.slice(i + 1).join('.'))
}

export const isReserved = (host: string, ownHost: string): boolean => isAtOrBelow(host, ownHost)

/** A name outside the project's own domain, where the installation wants such names listed. */
export const isUnlisted = (
  host: string,
  project: { domain: string; customDomains: readonly string[] },
): boolean =>
  !isAtOrBelow(host, project.domain) && !project.customDomains.some((d) => isAtOrBelow(host, d))
