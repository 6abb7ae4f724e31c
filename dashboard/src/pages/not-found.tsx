// One page for "not found" and "no access"; the server does not say which. The organization switcher leads on.
import { Link } from '@tanstack/react-router'
import { buttonClass } from '../components/button.tsx'
import { Page } from '../components/page.tsx'

export function NotFound({ isSignedIn = true }: { isSignedIn?: boolean }) {
  return (
    <Page title="Not found" heading="Not found, or you don’t have access">
      <p className="muted">
        {isSignedIn
          ? 'The address may be wrong, or the page may belong to another organization of yours. Switch organizations in the header, or ask an owner for access.'
          : 'The address may be wrong, or you may have to sign in to see this page.'}
      </p>
      <div className="row">
        <Link to="/" className={buttonClass('plain')}>
          {isSignedIn ? 'All projects' : 'Sign in'}
        </Link>
      </div>
    </Page>
  )
}
