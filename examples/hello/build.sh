# Writes public/index.html from the variables that every deployment has.
set -eu
mkdir -p public
cat >public/index.html <<PAGE
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>$SERVICE_ENV_IDENTIFIER</title>
<h1>$GREETING</h1>
<p>Environment <b>$SERVICE_ENV_IDENTIFIER</b> ($SERVICE_ENV_TYPE), branch $SERVICE_ENV_BRANCH, commit $BERTH_COMMIT.</p>
</html>
PAGE
echo "built public/index.html for $SERVICE_DOMAIN"
