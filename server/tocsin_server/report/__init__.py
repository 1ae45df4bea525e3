"""Write one run or a comparison as one HTML file that needs neither a server nor a network."""
