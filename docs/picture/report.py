#!/usr/bin/env python3
"""report.py PAGE.html: draw the pictures of docs/REPORT.md from a page of `weft report`.

Makes report-wide.webp (1280 columns, light) and report-narrow.webp (400 columns, dark) beside this
script. Needs Debian's chromium, chromium-driver and python3-selenium."""
import base64
import os
import sys

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import Select

HERE = os.path.dirname(os.path.abspath(__file__))
PICTURES = (("report-wide", 1280, 1700, 0.6, "light"), ("report-narrow", 400, 1500, 0.8, "dark"))


def main():
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    for name, width, height, scale, theme in PICTURES:
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        driver.get("file://" + os.path.abspath(sys.argv[1]))
        Select(driver.find_element("id", "theme")).select_by_value(theme)
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {
            "format": "webp", "quality": 60, "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}})
        with open(os.path.join(HERE, name + ".webp"), "wb") as f:
            f.write(base64.b64decode(shot["data"]))
    driver.quit()


if __name__ == "__main__":
    main()
